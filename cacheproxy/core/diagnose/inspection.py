"""The inspection of captured requests: sizes, changes, volatile fields, possible reuse."""

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
    id: str  #: id of the conversation
    turns: int  #: number of turns
    chars: int  #: size of its largest prompt, in characters
    models: tuple[str, ...]  #: models that it requested


@dataclass(frozen=True, slots=True)
class SideView:
    """One lane of side requests."""

    session: str  #: label of its conversation
    requests: int  #: number of requests
    chars: int  #: size of the largest prompt, in characters
    tools: int  #: number of tools in the first request
    evictions: int
    """Steps of the conversation with such requests between two turns: a server with one slot then
    loses it."""


@dataclass(frozen=True, slots=True)
class PartView:
    """One part of the prompts."""

    name: str  #: ``tools``, ``system``, ``history`` or ``last message``
    chars: float  #: characters in an average turn
    share: float  #: share of all characters, 0 to 1
    changed: int  #: number of steps (from a turn to the next) in which it changed
    breaks: int  #: number of steps in which the prompts diverge here
    breaks_at: int | None  #: earliest of these divergences, in characters from the prompt's start


@dataclass(frozen=True, slots=True)
class ReuseView:
    """Estimated share (0 to 1) of later prompts that the turn before has already."""

    order: PromptOrder  #: order of the template's parts
    without: float  #: share without rules
    with_rules: float  #: share with the active rules
    with_more: float
    """Share with inactive rules too, if they cover a field that no active rule covers."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """Everything that ``cacheproxy inspect`` prints."""

    requests: int  #: number of requests
    prompts: int  #: number of requests with a prompt that is understood
    seconds: float | None  #: seconds from the first request to the last; None: unknown
    sessions: tuple[SessionView, ...]  #: the conversations
    sides: tuple[SideView, ...]  #: the lanes of side requests
    steps: int  #: number of steps from a turn to the next
    replaced: int  #: number of steps in which the history was written anew
    late: int  #: number of requests with late system messages
    most_late: int  #: late system messages in one request, at most
    parts: tuple[PartView, ...]  #: the parts of the prompts
    fields: tuple[Field, ...]  #: fields that change within a conversation
    between: tuple[Field, ...]  #: fields that change between conversations of a client
    reuse: tuple[ReuseView, ...]  #: possible reuse for each order of the template
    rules: tuple[str, ...]  #: names of active rules that edited something
    more: tuple[str, ...]  #: names of inactive rules that would help
    chars_per_token: float  #: characters per token, measured by a server or the usual 4
    measured: bool  #: whether a server measured ``chars_per_token``


def inspect(
    records: Sequence[Exchange],
    rules: Sequence[Normalizer] = (),
    active: Iterable[str] | None = None,
    *,
    orders: Sequence[PromptOrder] | None = None,
    session: Callable[[Request], Session] = session_of,
    clients: Clients = NOBODY,
) -> Inspection:
    """Return the inspection of captured requests, given in the order in which they were sent.

    ``rules``: all existing rules; ``active``: names of the active ones (None: their defaults);
    ``orders``: possible orders of the template's parts, of which the first is used for ``parts``
    (None: all that make a difference); ``session``, ``clients``: see ``lanes_of``.
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
    turns = [turn for lane in lanes for turn in lane.turns if turn.record.usage.prompt]
    tokens = sum(turn.record.usage.prompt or 0 for turn in turns)
    density = sum(turn.prompt.chars for turn in turns) / tokens if tokens else None
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
        main = conversations.get(lane.parent)
        indexes = [turn.index for turn in lane.turns]
        yield SideView(
            lane.parent.label,
            len(prompts),
            max(prompt.chars for prompt in prompts),
            len(prompts[0].tools),
            sum(
                any(turn.index < index < later.index for index in indexes)
                for turn, later in pairwise(main.turns if main else ())
            ),
        )


def _between(mains: Sequence[RecordedLane]) -> list[Step]:
    """Return pairs of consecutive first turns of conversations with equal clients and tools."""
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
    """Return the number of late system messages."""
    return sum(map(is_late, prompt.pieces))


def _name_of(part: Part) -> str:
    return "history" if part is Part.MESSAGES else part.value


def _message(segment: Segment) -> str:
    return "/".join(segment.path.split("/")[:3])


def _sent(
    lanes: Iterable[RecordedLane], rules: Sequence[Normalizer]
) -> tuple[list[Step], set[str]]:
    """Return the steps as sent with ``rules``, and the names of the rules that edited something."""
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
