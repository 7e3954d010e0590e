"""What a plugin says of whose conversation a request is, taken with care."""

from __future__ import annotations

import pytest

from cacheproxy.core.prompt.client import Client
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.session_hook import MOST_ID, SessionHook

REQUEST = Request("POST", "/v1/messages", body=b"{}")
SECRET = "the secret prompt"
NO_ID = "returned text that is no id: at most 256 printable characters"


def raising(error):
    def ask(request):
        raise error

    return ask


@pytest.mark.parametrize("said", ["id", "agent/42", "é/ü 1", "x" * MOST_ID])
def test_a_text_is_an_answer(said):
    """Whatever can be printed on a line."""
    assert SessionHook("p", lambda request: said).answer(REQUEST) == (said, None)


def test_an_id_gets_the_name_of_the_plugins_client():
    """It is asked about that client's requests; an answer with a name keeps its own."""
    client = Client("mine", head=("You are Mine.",))
    mine, other = (
        Request("POST", "/v1/messages", body=body)
        for body in (b'{"system": "You are Mine."}', b'{"system": "You are not Mine."}')
    )
    hook = SessionHook("p", lambda request: "42", client=client)
    assert (hook.is_for(mine), hook.is_for(other)) == (True, False)
    assert hook.answer(mine) == ("mine/42", None)
    assert SessionHook("p", lambda request: "a/4", client=client).answer(mine) == ("a/4", None)
    every = SessionHook("p", lambda request: "42", client=Client("*"))
    assert every.is_for(other)
    assert every.answer(other) == ("42", None)


@pytest.mark.parametrize("said", [None, ""])
def test_no_answer_is_no_failure(said):
    """Most plugins know nothing of most requests."""
    assert SessionHook("p", lambda request: said).answer(REQUEST) == (None, None)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (5, "returned int instead of text"),
        (b"id", "returned bytes instead of text"),
        (["id"], "returned list instead of text"),
        ("x" * (MOST_ID + 1), NO_ID),
        ("a/1\nb", NO_ID),
        ("\x1b[2Ja/1", NO_ID),
        ("\ud83d", NO_ID),
        (object(), "returned object instead of text"),
    ],
)
def test_anything_else_is_a_failure_and_no_answer(said, problem):
    """Nothing of what it said is told."""
    hook = SessionHook("p", lambda request: said)
    assert hook.answer(REQUEST) == (None, problem)


@pytest.mark.parametrize("error", [ValueError, SystemExit, GeneratorExit, RecursionError])
def test_what_it_raises_is_named_without_its_text(error):
    """A SystemExit is as much its own failure as a ValueError."""
    hook = SessionHook("p", raising(error(SECRET)))
    assert hook.answer(REQUEST) == (None, f"raised {error.__name__}")


def test_the_users_interrupt_is_not_swallowed():
    """Ctrl-C in a command that reads captures."""
    with pytest.raises(KeyboardInterrupt):
        SessionHook("p", raising(KeyboardInterrupt())).answer(REQUEST)


def test_it_is_counted_under_the_plugin_and_the_hook():
    """So that a rule of the plugin's name is another."""
    assert SessionHook("p", str).name == "p: cacheproxy_session"
