"""What the dashboard shows, without a process: figures and names alone."""

import json

import pytest
from twisted.internet.defer import Deferred

from cacheproxy.core.conversation.store import Store
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.observe.verdicts import Verdicts
from cacheproxy.web.pages import PageError
from tests import transcript
from tests.observe.exchanges import body, exchange

from .sample import NOW, Shown

SECRET = "kanarienvogel"


def result(coroutine):
    """What a coroutine that does not wait returns, or raises."""
    found = []
    Deferred.fromCoroutine(coroutine).addBoth(found.append)
    assert found
    if hasattr(found[0], "raiseException"):
        found[0].raiseException()
    return found[0]


def page(coroutine):
    """A page, which holds no word of a prompt."""
    found = result(coroutine)
    assert SECRET not in (json.dumps(found, allow_nan=False) if isinstance(found, dict) else "")
    return found


def lines(found):
    """A page, a member to a line."""
    return "\n".join(
        f"{name}: {json.dumps(each, ensure_ascii=False)}" for name, each in found.items()
    )


def refused(ask, query):
    with pytest.raises(PageError) as error:
        result(ask(query))
    return str(error.value)


def judged(known, number, said, **changes):
    each = exchange(said, number=number, wall=NOW - 60 + number, **changes)
    known.judge(each)
    return each


def broken():
    """A dashboard of two turns, of which the second broke."""
    shown, known = Shown(), Verdicts(Store())
    system = f"nonce {{}} {SECRET} {'x ' * 3000}"
    first = body("a", system=system.format("1a2b3c4d"))
    second = body("a", "b", "c", system=system.format("9c8d7e6f"))
    shown.finish(
        judged(known, 1, first, usage=Usage(2000, 0, 5, prompt_seconds=4.0)),
        judged(known, 2, second, usage=Usage(2010, 3, 5, prompt_seconds=4.0)),
    )
    return shown


def test_all_that_is_shown():
    transcript.holds("pages.txt", globals())
