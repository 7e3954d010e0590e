"""What came through the proxy lately, as it remembers it: who, and what became of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from cacheproxy.asking import NoAnswerError, Site
from cacheproxy.client_setup.finding import Finding, FindingState, ok
from cacheproxy.core.conversation.session import DOCTOR
from cacheproxy.core.conversation.verdict import Judgement, Rewrite
from cacheproxy.core.judge.advice import setup_command
from cacheproxy.core.judge.explain import FELT, share_in_words
from cacheproxy.core.prompt.client import Client
from cacheproxy.core.servers.kind import ServerKind
from cacheproxy.core.servers.kinds import kind_called
from cacheproxy.record.exchange import Outcome
from cacheproxy.words import ago, clients, counted

PAGE = "/_cacheproxy/exchanges"
_LAST = 10
"""Requests that the headline speaks of."""
_MOST = 0.5
"""Share of lost tokens. Of so few turns, a quarter may be one turn that had to break."""
_LONGEST = 200
"""Characters of what a server said."""
PLACE = "start the proxy with --placement user"
_IN_TEMPLATE = "Jinja Exception:"
"""llama-server: behind it stands what the template has to say, before it a part of its source."""
_SYSTEM = re.compile(r"system (?:message|role)|roles must alternate", re.IGNORECASE)
"""How chat templates refuse a system message that comes late (Qwen3.5, Mistral's)."""
_CONTEXT = re.compile(r"context (?:size|length|window)|exceed_context", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SeenExchange:
    """One exchange, as the proxy's page tells it."""

    number: int = 0  #: the proxy's, counted from 1
    client: str = "client"  #: its name
    session: str = ""  #: "": it had none
    turn: int = 0  #: of its session, from 1; 0: it is none
    side: bool = False  #: whether it was beside the conversation
    prompt: int | None = None  #: tokens; None: not reported
    reused: int | None = None  #: tokens of the prompt; None: not reported
    verdict: str = "-"  #: a Judgement; "-": none
    reason: str = ""  #: of the verdict
    rewrite: str = ""  #: what the template did
    wall: float = 0.0  #: when it began, in seconds since the epoch
    seconds: float = 0.0  #: how long it took
    path: str = ""  #: that the client asked for
    status: int | None = None  #: as the client saw it; None: it saw nothing
    outcome: str = Outcome.COMPLETE  #: how it ended
    said: str | None = None  #: by the server, of a failure
    lost: int | None = None  #: tokens of the turn before; None: not reported

    @property
    def end(self) -> float:
        """When it was over, in seconds since the epoch."""
        return self.wall + self.seconds

    @property
    def failed(self) -> bool:
        """Whether its client got an error, or half an answer. One that left is no failure."""
        return self.outcome == Outcome.UPSTREAM_FAILED or (self.status or 0) >= 400


@dataclass(frozen=True, slots=True)
class Record:
    """What came through the proxy lately."""

    seen: tuple[SeenExchange, ...]  #: those with a prompt, oldest first, without doctor's own

    @property
    def measured(self) -> tuple[SeenExchange, ...]:
        """The last exchanges whose reuse the server told."""
        known = [
            one
            for one in self.seen
            if one.prompt is not None and one.reused is not None and not one.failed
        ]
        return tuple(known[-_LAST:])

    @property
    def later(self) -> tuple[SeenExchange, ...]:
        """The measured turns that could have reused the turn before."""
        return tuple(one for one in self.measured if one.turn > 1 and not one.side)

    @property
    def breaks(self) -> tuple[SeenExchange, ...]:
        """The later turns that lost the cache."""
        return tuple(one for one in self.later if one.verdict == Judgement.BREAK)

    @property
    def lost_share(self) -> float:
        """Share of the later turns' prompt tokens that the breaks had evaluated again."""
        prompt = sum(one.prompt or 0 for one in self.later)
        lost = sum(
            (one.prompt or 0) - (one.reused or 0) if one.lost is None else one.lost
            for one in self.breaks
        )
        return lost / prompt if prompt else 0.0

    @property
    def is_broken(self) -> bool:
        """Whether the breaks lost half of the later turns' prompt tokens, or more."""
        return self.lost_share >= _MOST

    def rewritten(self, rewrite: Rewrite) -> tuple[int, int]:
        """Return how many turns lost how many tokens because the template did this."""
        lost = [one.lost or 0 for one in self.seen if one.rewrite == rewrite and not one.side]
        return len(lost), sum(lost)

    @property
    def failing(self) -> dict[str, tuple[SeenExchange, ...]]:
        """The last requests of each client of which the very last, or half, failed."""
        found = {}
        for client in self.clients():
            last = [one for one in self.seen if one.client == client][-_LAST:]
            if last[-1].failed or 2 * sum(one.failed for one in last) >= len(last):
                found[client] = tuple(last)
        return found

    def clients(self) -> dict[str, int]:
        """Return how many requests each client sent."""
        return Counter(one.client for one in self.seen)

    def after(self, earlier: Record) -> tuple[SeenExchange, ...]:
        """Return what came since ``earlier`` was read."""
        last = max((one.number for one in earlier.seen), default=0)
        return tuple(one for one in self.seen if one.number > last)


def read(proxy: str, headers: Mapping[str, str]) -> Record | None:
    """Return the record of the proxy at ``proxy`` (a URL), None if it keeps none. Never raises.

    ``headers``: the proxy's token, if it has one.
    """
    try:
        page = Site(proxy, dict(headers)).page(PAGE)
    except NoAnswerError:
        return None
    if isinstance(page, dict):
        page = page.get("exchanges")
    if not isinstance(page, list):
        return None
    seen = (_seen(item) for item in page if isinstance(item, dict))
    mine = [one for one in seen if one and _has_prompt(one) and one.client != DOCTOR]
    return Record(tuple(sorted(mine, key=lambda one: one.number)))


def _has_prompt(one: SeenExchange) -> bool:
    """Whether it is a turn, or would have been one if it had not failed."""
    counts = one.path.rstrip("/").endswith("/count_tokens")
    return one.turn > 0 or (one.failed and bool(one.session) and not counts)


def _seen(item: dict[str, Any]) -> SeenExchange | None:
    """Read one row of the page, None where it is none; what it does not say has its default."""
    usage = item.get("usage")
    said = {**item, **(usage if isinstance(usage, dict) else {}), "said": _line(item.get("error"))}
    try:
        return msgspec.convert(
            {name: one for name, one in said.items() if one is not None}, SeenExchange
        )
    except msgspec.ValidationError:
        return None


def _line(value: Any) -> str | None:
    """Return what a server said on one line of a sane length, of a template's error the end."""
    if not isinstance(value, str):
        return None
    return " ".join(value.rpartition(_IN_TEMPLATE)[2].split())[:_LONGEST] or None


def check_requests(
    record: Record | None, now: float, kind: str = "", clients: Iterable[Client] = ()
) -> list[Finding]:
    """Return a finding for each client with failed requests among its last.

    ``now``: seconds since the epoch; ``kind``: the server's; ``clients``: that packages declare.
    """
    if record is None:
        return []
    failing = record.failing
    known = {client.name: client for client in clients}
    see = partial(_mend, server=kind_called(kind), clients=known)
    found = [_finding(FindingState.FAIL, last, see, now) for last in failing.values()]
    rest = [one for one in record.seen[-_LAST:] if one.client not in failing]
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
    how = "an answer that broke off"
    if (worst.status or 0) >= 400:
        how = f"HTTP {worst.status}" + (f': "{worst.said}"' if worst.said else "")
    text += f"{the_last} {ago(now - worst.wall)} on {worst.path or 'a path'}, with {how}"
    return Finding("requests", state, text, mend(worst))


def _mend(one: SeenExchange, server: ServerKind, clients: Mapping[str, Client]) -> str:
    said, see = one.said or "", f"cacheproxy diagnose {one.number}"
    if _SYSTEM.search(said):
        return PLACE
    if _CONTEXT.search(said):
        larger = f"{server.context} larger for {server.called}, or " if server.context else ""
        command = setup_command(clients.get(one.client))
        return f"{larger}a smaller window for the client: {command}"
    if one.status in (401, 403):
        return f"give the client the model server's key; {see}"
    return see


def check_agents(record: Record | None, now: float) -> list[Finding]:
    """Return the findings on clients and their turns; ``now``: seconds since the epoch."""
    if record is None or not record.seen:
        return []
    came = clients(((one.client, one.session, one.wall) for one in record.seen), now)
    found = [ok("agents", f"seen: {came}")]
    if not record.breaks:
        return found
    reasons = Counter(one.reason or "unknown" for one in record.breaks)
    text = (
        f"{len(record.breaks)} of the last {counted(len(record.later), 'follow-up turn')} lost the "
        f"cache: {', '.join(f'{reason} {number}' for reason, number in reasons.most_common())}"
        f"; {share_in_words(record.lost_share)} of their tokens were evaluated again"
    )
    state = FindingState.WARN if record.lost_share >= FELT else FindingState.OK
    state = FindingState.FAIL if record.is_broken else state
    fix = f"cacheproxy diagnose {record.breaks[-1].number}   says where and why"
    return [*found, Finding("turns", state, text, fix)]
