"""Requests of agents that ended in an error: what the server said, and which turn to look at."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from cacheproxy.core.judge.advice import setup_command
from cacheproxy.core.prompt.client import Client
from cacheproxy.core.server.flags import ServerFlags, of_kind
from cacheproxy.doctor.finding import Finding, FindingState
from cacheproxy.doctor.record import Record, SeenExchange
from cacheproxy.doctor.template import PLACE
from cacheproxy.words import ago, counted

_SYSTEM = re.compile(r"system (?:message|role)|roles must alternate", re.IGNORECASE)
"""How chat templates refuse a system message that comes late (Qwen3.5, Mistral's)."""
_CONTEXT = re.compile(r"context (?:size|length|window)|exceed_context", re.IGNORECASE)


def check(
    record: Record | None, now: float, kind: str = "", clients: Iterable[Client] = ()
) -> list[Finding]:
    """Return a finding for each client with failed requests among its last.

    ``now``: seconds since the epoch; ``kind``: the server's; ``clients``: that packages declare.
    """
    if record is None:
        return []
    failing = record.failing
    known = {client.name: client for client in clients}
    see = partial(_mend, server=of_kind(kind), clients=known)
    found = [_finding(FindingState.FAIL, last, see, now) for last in failing.values()]
    rest = [one for one in record.recent if one.client not in failing]
    if any(one.failed for one in rest):
        found.append(_finding(FindingState.WARN, rest, see, now))
    return found


def summary(last: Sequence[SeenExchange]) -> str:
    """Return how many of the last requests of one client failed, for people."""
    failed = sum(one.failed for one in last)
    text = f"{failed} of the last {counted(len(last), 'request')} of {last[-1].client} failed"
    if failed == len(last):
        text = f"all of the last {counted(failed, 'request')} of {last[-1].client} failed"
        if failed == 1:
            text = f"the only request of {last[-1].client} failed"
    return text


def how(one: SeenExchange) -> str:
    """Return how a request failed: the status, and the server's own words if they are known."""
    if (one.status or 0) < 400:
        return "an answer that broke off"
    return f"HTTP {one.status}" + (f': "{one.said}"' if one.said else "")


def _finding(
    state: FindingState,
    last: Sequence[SeenExchange],
    mend: Callable[[SeenExchange], str],
    now: float,
) -> Finding:
    worst = next(one for one in reversed(last) if one.failed)
    the_last = ", the last"
    if state is FindingState.FAIL:
        text = summary(last)
        the_last = "" if len(last) == 1 else the_last
    else:
        failed = sum(one.failed for one in last)
        text = f"{failed} of the last {counted(len(last), 'request')} failed"
    text += f"{the_last} {ago(now - worst.wall)} on {worst.path or 'a path'}, with {how(worst)}"
    return Finding("requests", state, text, mend(worst))


def _mend(one: SeenExchange, server: ServerFlags, clients: Mapping[str, Client]) -> str:
    said, see = one.said or "", f"cacheproxy diagnose {one.number}"
    if _SYSTEM.search(said):
        return PLACE
    if _CONTEXT.search(said):
        larger = f"{server.context} larger for {server.name}, or " if server.context else ""
        command = setup_command(clients.get(one.client))
        return f"{larger}a smaller window for the client: {command}"
    if one.status in (401, 403):
        return f"give the client the model server's key; {see}"
    return see
