"""Failed requests: whose they are, the server's words, and the cure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum

from cacheproxy.core.adapt.cures import cure
from cacheproxy.core.adapt.late import refuses_late
from cacheproxy.core.dialects.dialect import Purpose
from cacheproxy.core.dialects.dialects import endpoint_of
from cacheproxy.record.exchange import A_PAGE, Exchange, Outcome
from cacheproxy.words import ago, capitalised, counted

LATELY = 3600.0
"""Seconds; older requests are not judged."""
_LAST = 10
"""Requests of a client that are judged, the last ones."""
_LONGEST = 200
"""Characters of a server's words at most."""
_IN_TEMPLATE = "Jinja Exception:"
"""llama-server's mark before the template's own error; before it stands some of the template's
source."""
_CONTEXT = re.compile(r"context (?:size|length|window)|exceed_context", re.IGNORECASE)
_ALIKE = 3
"""Refusals in a row, all in the same words, after which a conversation is stuck."""


class Fault(StrEnum):
    """The cause of a failed request, by its cure; "" if that depends on the server."""

    PLACE = "start the proxy with --placement user"
    """A system message comes late, and the template refuses it."""
    LENGTH = ""  #: the prompt is longer than the server's context
    KEY = "give the client the model server's key"  #: the server does not accept the client's key
    REQUEST = "mend what the client sends; the server says what is wrong with it"
    """The request is malformed, or asks for something that does not exist."""
    ADDRESS = "see that --upstream names the model server"  #: the answer is a web page
    SERVER = "look in the model server's log"  #: the server failed, not the request
    EMPTY = (
        "look in the model server's log: its chat template, or its parser of tool calls or "
        "reasoning, may leave out what the model says"
    )


def failing(
    lately: Sequence[Exchange], known: frozenset[str], *, tries_count: bool
) -> dict[str, tuple[Exchange, ...]]:
    """Return the last requests of each client of which the very last, or half, failed.

    A client that only tried is left out: all its requests were at fault themselves, and it sent but
    one, or is a stranger (not in ``known``, unless ``tries_count``).
    """
    found = {}
    for client in dict.fromkeys(one.client for one in lately):
        mine = tuple(one for one in lately if one.client == client)[-_LAST:]
        failed = sum(one.went_wrong for one in mine)
        is_try = failed == len(mine) and all(fault_of(one) is Fault.REQUEST for one in mine)
        if is_try and (len(mine) == 1 or not (tries_count or client in known)):
            continue
        # one malformed request behind others that went well is a try, too
        is_serious = fault_of(mine[-1]) is not Fault.REQUEST or mine[-2:-1] == ()
        is_stuck = all(one.went_wrong for one in mine[-1 if is_serious else -2 :])
        if is_stuck or 2 * failed >= len(mine):
            found[client] = mine
    return found


def _how(last: Exchange, recent: Iterable[Exchange], now: float) -> str:
    """Return how the ``last`` request of a client failed, and how often it did in the same way."""
    alike: list[Exchange] = []
    for one in recent:
        if one.session == last.session and has_prompt(one):
            is_same = one.has_failed and (one.status, one.error) == (last.status, last.error)
            alike = [*alike, one] if is_same else []
    if len(alike) < _ALIKE or last.session is None:
        return f"The last request of {last.client} failed {failure(last, now)}"
    since = ago(now - alike[0].wall)
    return (
        f"{last.session.label} is stuck: it was refused {len(alike)} times in the same way, first "
        f"{since}, the last {failure(last, now)}"
    )


def stuck(recent: Iterable[Exchange], now: float) -> list[tuple[str, Exchange]]:
    """Return each client's last prompt if it failed or got nothing, and how; the latest last.

    ``now``: seconds since the epoch; requests of more than an hour ago are left out.
    """
    recent, last = list(recent), dict[str, Exchange]()
    for one in recent:
        if has_prompt(one) and one.ended >= now - LATELY:
            last.pop(one.client, None)
            last[one.client] = one
    bad = [one for one in last.values() if one.went_wrong or one.outcome is Outcome.EMPTY]
    return [(_how(one, recent, now), one) for one in bad]


def cure_of(one: Exchange) -> str:
    """Return the cure of a failure, for people."""
    mend = Fault.EMPTY if one.outcome is Outcome.EMPTY else mend_of(one)
    return capitalised(mend or "give the server a larger context, or the client a smaller window")


def mend_of(one: Exchange) -> str:
    """Return the cure of a failure; "" if the prompt is too long: it depends on the server."""
    return cure(one.error or "") or fault_of(one)


def has_prompt(one: Exchange) -> bool:
    """Return whether the exchange is a turn, or would be one if it had not failed."""
    counts = endpoint_of(one.received.path).purpose is Purpose.COUNT
    return one.turn > 0 or (one.went_wrong and one.session is not None and not counts)


def said_of(one: Exchange) -> str:
    """Return a server's words on one line of limited length; of a template's error, its end."""
    return " ".join((one.error or "").rpartition(_IN_TEMPLATE)[2].split())[:_LONGEST]


def summary(last: Sequence[Exchange]) -> str:
    """Return how many of the last requests of one client failed, for people."""
    failed, client = sum(one.went_wrong for one in last), last[-1].client
    if failed == len(last) == 1:
        return f"the only request of {client} failed"
    part = "all" if failed == len(last) else str(failed)
    return f"{part} of the last {counted(len(last), 'request')} of {client} failed"


def failure(one: Exchange, now: float) -> str:
    """Return when and how a request failed, for people."""
    how = "an answer that broke off"
    if one.outcome is Outcome.EMPTY:
        how = "an answer that says nothing"
    if one.has_failed:
        said = said_of(one)
        how = f"HTTP {one.status}" + (f': "{said}"' if said else "")
    elif one.error:
        how = f'HTTP {one.status} and then: "{one.error}"'
    return f"{ago(now - one.wall)} on {one.received.path or 'a path'}, with {how}"


def fault_of(one: Exchange) -> Fault:
    """Return the cause of a failure, by its status and words."""
    said = one.error or ""
    if refuses_late(said.encode("utf-8", "replace")):
        return Fault.PLACE
    if _CONTEXT.search(said):
        return Fault.LENGTH
    if said.startswith(A_PAGE):
        return Fault.ADDRESS
    if one.status in (401, 403):
        return Fault.KEY
    return Fault.REQUEST if one.status in range(400, 500) else Fault.SERVER
