"""What captured requests say about the prompt cache: sizes, changes, volatile fields, reuse."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from cacheproxy.core.conversation.session import Session, session_of
from cacheproxy.core.diagnose.conversations import RecordedLane, RecordedTurn, is_doctors, lanes_of
from cacheproxy.core.diagnose.volatile import Field, Step, fields, parted
from cacheproxy.core.dialects.content import Part, Segment
from cacheproxy.core.diff.changes import changes
from cacheproxy.core.judge.judge import CHARS_PER_TOKEN, ORDERS
from cacheproxy.core.prompt.client import NOBODY, Clients
from cacheproxy.core.prompt.prompt import Prompt, PromptOrder, is_late
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.code_rule import Normalizer
from cacheproxy.core.rules.fold import normalize
from cacheproxy.record.exchange import Exchange


@dataclass(frozen=True, slots=True)
class SessionView:
    """One conversation."""

    client: str  #: the client's name
    id: str  #: the conversation's
    turns: int  #: how many
    chars: int  #: its largest prompt, in characters
    models: tuple[str, ...]  #: that it asked for


@dataclass(frozen=True, slots=True)
class SideView:
    """Requests beside a conversation."""

    session: str  #: of whom
    requests: int  #: how many
    chars: int  #: the largest, in characters
    tools: int  #: how many its first request has
    evictions: int
    """How often one or several in a row came between two turns, so that a server with one slot lost
    the conversation."""


@dataclass(frozen=True, slots=True)
class PartView:
    """One part of the prompts."""

    name: str  #: ``tools``, ``system``, ``history`` or ``last message``
    chars: float  #: characters of an average turn
    share: float  #: of all, 0 to 1
    changed: int  #: in how many steps from a turn to the next
    breaks: int  #: in how many of these the prompts part here
    breaks_at: int | None  #: the first such place, in characters from the start of the prompt


@dataclass(frozen=True, slots=True)
class ReuseView:
    """Share of the later prompts that the turns before have already (0 to 1), estimated."""

    order: PromptOrder  #: what the template prints first
    without: float  #: without rules
    with_rules: float  #: with those that are on
    with_more: float
    """With those that are off, too, but take away a field that none that is on does."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """Everything ``cacheproxy inspect`` prints."""

    requests: int  #: all that were given
    prompts: int  #: those with a prompt we can read
    seconds: float | None  #: from the first request to the last; None: unknown
    sessions: tuple[SessionView, ...]  #: the conversations
    sides: tuple[SideView, ...]  #: what ran beside them
    steps: int  #: from a turn to the next
    replaced: int  #: how often a history was written anew
    late: int  #: the requests with system messages that come late in the list
    most_late: int  #: as many as one has
    parts: tuple[PartView, ...]  #: of the prompts
    fields: tuple[Field, ...]  #: that change within a conversation
    between: tuple[Field, ...]  #: those that change from one conversation to the next of a client
    reuse: tuple[ReuseView, ...]  #: what is had already, by the order of the template
    rules: tuple[str, ...]  #: the names of those that are on and edited something
    more: tuple[str, ...]  #: those that are off and would help
    chars_per_token: float  #: measured by a server, else the usual 4
    measured: bool  #: whether a server measured it


def inspect(
    records: Sequence[Exchange],
    rules: Sequence[Normalizer] = (),
    active: Iterable[str] | None = None,
    *,
    orders: Sequence[PromptOrder] | None = None,
    session: Callable[[Request], Session] = session_of,
    clients: Clients = NOBODY,
) -> Inspection:
    """Inspect captured requests, in the order in which they were sent.

    ``rules``: all that there are; ``active``: the names of those that are on (None: their
    defaults); ``orders``: what the server's template prints first, the parts by the first of
    them (None: all that make a difference); ``session``, ``clients``: see ``lanes_of``.
    """
    on = {rule.name for rule in rules if rule.default} if active is None else set(active)
    records = [record for record in records if not is_doctors(record)]
    lanes = lanes_of(records, session, clients)
    mains = [lane for lane in lanes if not lane.is_side]
    steps = [pair for lane in lanes for pair in pairwise(lane.turns)]
    requests = [(turn.request, later.request) for turn, later in steps]
    ordered = sorted(rules, key=lambda rule: rule.name not in on)
    found = fields(requests, ordered)
    more = {one.rules[0] for one in found if one.rules} - on
    sent, used = _sent(lanes, [rule for rule in rules if rule.name in on])
    better, _ = _sent(lanes, [rule for rule in rules if rule.name in on | more])
    late = [count for lane in lanes for turn in lane.turns if (count := _late(turn.prompt))]
    if orders is None:
        orders = (*ORDERS, PromptOrder.HOISTED) if late else ORDERS
    density = _density(lanes)
    walls = [turn.record.wall for lane in lanes for turn in lane.turns]
    return Inspection(
        requests=len(records),
        prompts=sum(len(lane.turns) for lane in lanes),
        seconds=max(walls) - min(walls) if any(walls) and len(walls) > 1 else None,
        sessions=tuple(_session(lane) for lane in mains),
        sides=tuple(_sides(lanes, mains)),
        steps=len(steps),
        replaced=sum(later.place.replaced for _, later in steps),
        late=len(late),
        most_late=max(late, default=0),
        parts=_parts(lanes, steps, orders[0]),
        fields=found,
        between=fields(_between(mains), ordered, (Part.TOOLS, Part.SYSTEM)),
        reuse=tuple(
            ReuseView(order, *(_reuse(one, order) for one in (requests, sent, better)))
            for order in orders
        ),
        rules=tuple(rule.name for rule in rules if rule.name in used),
        more=tuple(rule.name for rule in rules if rule.name in more),
        chars_per_token=density or CHARS_PER_TOKEN,
        measured=density is not None,
    )


def _session(lane: RecordedLane) -> SessionView:
    return SessionView(
        lane.session.client,
        lane.session.id,
        len(lane.turns),
        max(turn.prompt.chars for turn in lane.turns),
        tuple(dict.fromkeys(turn.prompt.model for turn in lane.turns if turn.prompt.model)),
    )


def _sides(lanes: Sequence[RecordedLane], mains: Sequence[RecordedLane]) -> Iterable[SideView]:
    conversations = {lane.session: lane for lane in mains}
    for lane in lanes:
        if not lane.is_side or lane.parent is None:
            continue
        prompts = [turn.prompt for turn in lane.turns]
        yield SideView(
            lane.parent.label,
            len(prompts),
            max(prompt.chars for prompt in prompts),
            len(prompts[0].tools),
            _evictions(lane, conversations.get(lane.parent)),
        )


def _evictions(lane: RecordedLane, main: RecordedLane | None) -> int:
    """In how many steps of the conversation ``lane`` came in between."""
    indexes = [turn.index for turn in lane.turns]
    return sum(
        any(turn.index < index < later.index for index in indexes)
        for turn, later in pairwise(main.turns if main else ())
    )


def _between(mains: Sequence[RecordedLane]) -> list[Step]:
    """The first turns of conversations with the same client and the same tools, in pairs."""
    groups: dict[tuple[str, frozenset[str]], list[Request]] = {}
    for lane in mains:
        first = lane.turns[0]
        key = lane.session.client, first.prompt.tools
        groups.setdefault(key, []).append(first.request)
    return [pair for group in groups.values() for pair in pairwise(group)]


def _parts(
    lanes: Sequence[RecordedLane],
    steps: Sequence[tuple[RecordedTurn, RecordedTurn]],
    order: PromptOrder,
) -> tuple[PartView, ...]:
    sizes = dict.fromkeys(("tools", "system", "history", "last message"), 0)
    turns = [turn for lane in lanes if not lane.is_side for turn in lane.turns]
    for turn in turns:
        last = _message(turn.prompt.segments[-1])
        for segment in turn.prompt.segments:
            is_last = segment.part is Part.MESSAGES and _message(segment) == last
            sizes["last message" if is_last else _name_of(segment.part)] += len(segment.text)
    total = sum(sizes.values())
    changed = dict.fromkeys(sizes, 0)
    breaks: dict[str, list[int]] = {name: [] for name in sizes}
    for turn, later in steps:
        for name in {_name_of(change.part) for change in changes(turn.request, later.request)}:
            changed[name] += 1
        found = parted((turn.request, later.request), order)
        if found is not None and found.left.was is not None:
            breaks[_name_of(found.left.part)].append(found.left.shared)
    return tuple(
        PartView(
            name,
            size / max(1, len(turns)),
            size / max(1, total),
            changed[name],
            len(breaks[name]),
            min(breaks[name], default=None),
        )
        for name, size in sizes.items()
    )


def _late(prompt: Prompt) -> int:
    """How many system messages come late."""
    return sum(map(is_late, prompt.pieces))


def _name_of(part: Part) -> str:
    return "history" if part is Part.MESSAGES else part.value


def _message(segment: Segment) -> str:
    return "/".join(segment.path.split("/")[:3])


def _sent(
    lanes: Iterable[RecordedLane], rules: Sequence[Normalizer]
) -> tuple[list[Step], set[str]]:
    """The steps as they would be sent with ``rules``, and the names of those that did something."""
    steps: list[Step] = []
    used: set[str] = set()
    for lane in lanes:
        previous: Request | None = None
        for turn in lane.turns:
            result = normalize(turn.request, rules, previous)
            used |= {report.rule for report in result.reports if report.edits}
            if previous is not None:
                steps.append((previous, result.request))
            previous = result.request
    return steps, used


def _reuse(steps: Iterable[Step], order: PromptOrder) -> float:
    shared = total = 0
    for step in steps:
        found = parted(step, order)
        if found is not None:
            total += found.now.chars
            shared += found.left.shared if found.was.model == found.now.model else 0
    return shared / total if total else 0.0


def _density(lanes: Iterable[RecordedLane]) -> float | None:
    """Characters per token, where a server has counted the tokens."""
    turns = [turn for lane in lanes for turn in lane.turns if turn.record.usage.prompt]
    tokens = sum(turn.record.usage.prompt or 0 for turn in turns)
    return sum(turn.prompt.chars for turn in turns) / tokens if tokens else None
