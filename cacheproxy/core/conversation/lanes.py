"""Lanes: the requests of a session that extend one another, apart from its side requests.

A session is the set of requests that a client marks as one. It has lanes: the conversation itself,
and the client's other requests to the model (a title, a subagent, a heartbeat). On a server with
one slot, such a request pushes the conversation out of the cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress
from operator import attrgetter, is_not
from typing import NamedTuple

from cacheproxy.core.conversation.divergence import Kinship, parting, taken_back
from cacheproxy.core.conversation.history import History
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.dialects.content import Part
from cacheproxy.core.diff.text import share_of_words
from cacheproxy.core.prompt.prompt import Prompt
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.prompt.segments import unlike

_COST, _TEXT, _IS_ANSWER = map(attrgetter, ("cost", "text", "is_answer"))
_EACH, _EACH_HEADER = 2500, 150
"""Bytes that Python adds to the texts of a lane and of a header, as measured."""
_HALF = 0.5
_MOST_OTHERS = 3
_MOST_BRANCHES = 3
_ONE_FORM = 0.8
"""Share of common words from which two first messages are of the same form."""
_SAME_SYSTEM = 0.6
"""Share of common words from which two system texts are the same, but for some fields."""


class Pair(NamedTuple):
    """A request and the one before it in its lane, as the rules left both.

    A further rule of the user's would get them so, since it would run after all others.
    """

    before: Request  #: earlier request
    after: Request  #: later request
    turn: int = 0  #: turn of the later request
    curable: bool = False  #: whether a rule may help, by the shape of the change


class Place(NamedTuple):
    """The place of a request in its conversation."""

    lane: int  #: number of the lane, from 0, in the order of their first requests
    turn: int  #: number of the turn in its lane, from 1
    is_side: bool  #: whether it is beside the conversation, as far as was known when it came
    replaced: bool = False  #: whether the history was rewritten, much shorter (a compaction)
    pair: Pair | None = None  #: request and the one before, until the turn is judged
    history: History | None = None  #: own history if values may be put back, until it is judged
    root: Session | None = None  #: session that this one works for
    beside: int = 0  #: number of the lane from 1, if it is another than the main one, else 0


class Before(NamedTuple):
    """The turn before, which the next one is compared with."""

    sent: Prompt  #: prompt as sent
    unedited: Prompt  #: prompt as it came
    tokens: int | None = None  #: tokens of the prompt, if they were counted
    request: Request | None = None  #: request as sent, for another rendering
    upstream: str = ""  #: name of its upstream
    generated: int | None = None  #: tokens of the answer
    was_ok: bool = False  #: whether the turn reused all of the one before it
    ended: float = 0.0  #: time of its end, in seconds since the epoch
    start: str | None = None  #: start of the server then (see ``Profile``)
    evaluated: int | None = None  #: tokens evaluated, if the server reported the reused ones
    floor: int | None = None  #: tokens of the prompt at least, if the server read less
    warmed: int = 0  #: number of restarted servers that have read the prompt again


class Home(NamedTuple):
    """The upstream, of several, that has a lane's prefix in its cache."""

    name: str  #: name of the upstream
    route: str = ""  #: route that was taken there
    start: str | None = None  #: start of the server then (see ``Profile``)


@dataclass(eq=False, slots=True)
class Lane:
    """A series of requests that extend one another."""

    number: int  #: number of the lane, from 0, in the order of first requests
    request: Request  #: last request that went upstream, as the rules left it
    prompt: Prompt  #: prompt of ``request``, tools first
    plain: Prompt  #: prompt before pins put values back, by which the lane is recognised
    others: dict[frozenset[str], Request] = field(default_factory=dict)
    """Last requests with other tools, by the tools' names."""
    turns: int = 0  #: number of evaluated turns
    before: Before | None = None  #: last evaluated turn, None before the first
    branches: tuple[Before, ...] = ()
    """Last turns of other branches (siblings that go on side by side, turns taken back)."""
    broken: Pair | None = None  #: last turn that broke, to prove a rule on
    home: Home | None = None  #: home of the prefix, None if there has been one upstream
    cost: int = 0  #: bytes of the lane, roughly

    def go_on(self, request: Request, prompt: Prompt, plain: Prompt) -> int:
        """Make ``request``, which went upstream, the last one of the lane.

        Return by how many bytes the lane has grown: an estimate until the next ``count``.
        """
        tools, now = self.prompt.tools, prompt.tools
        if tools != now:
            self.others.pop(now, None)
            self.others[tools] = self.request
            while len(self.others) > _MOST_OTHERS:
                del self.others[next(iter(self.others))]
        grown = len(request.body) + prompt.cost - len(self.request.body) - self.prompt.cost
        self.request, self.prompt, self.plain = request, prompt, plain
        self.cost += grown
        return grown

    def before_of(self, sent: Prompt) -> Before | None:
        """Return the turn before ``sent``: the last one, or that of the branch it goes on with.

        A turn of the same model is preferred, since each model has a cache of its own.
        """
        before = self.before
        if before is None or not self.branches:
            return before
        known = (before, *reversed(self.branches))
        known = tuple(one for one in known if one.sent.model == sent.model) or known
        for one in known:
            digests = one.sent.digests
            if sent.digests[: len(digests)] == digests:
                return one
        return known[0]

    def branches_with(self, turn: Before | None, before: Before | None) -> tuple[Before, ...]:
        """Return the branches after ``turn`` was evaluated; the comparison may take long.

        ``before``: turn that it was compared with.
        """
        last, branches = self.before, self.branches
        if turn is before or last is None or turn is None:
            return branches
        kept = branches and [one for one in branches if one is not before]
        was_branch = len(kept) < len(branches)
        is_other = last.sent.model != turn.sent.model or last.sent.tools != turn.sent.tools
        if was_branch or is_other or (last is before and _is_branch(turn.sent, last.sent)):
            return (*kept, last)[-_MOST_BRANCHES:]
        return branches

    def count(self) -> None:
        """Count the bytes of the lane: parts that two prompts have in common count once."""
        made, body = self.prompt.made, self.request.body
        requests = [self.request, *self.others.values()]
        if self.broken is not None:
            requests += self.broken[:2]
        pairs = [(self.plain.made, made)]
        for turn in () if self.before is None else (self.before, *self.branches):
            if turn.request is not None and turn.request.body is not body:
                requests.append(turn.request)
            sent = turn.sent.made
            pairs += ((sent, made), (turn.unedited.made, sent))
        cost = _EACH + self.prompt.cost
        for request in requests:  # without parsed values; a head may be as long as a body
            cost += len(request.body) + len(request.target) + _EACH_HEADER * len(request.headers)
            cost += sum(map(len, chain.from_iterable(request.headers)))
        for one, other in pairs:
            if one is other:
                continue
            tool_piece, texts, run, _ = one
            cost += 0 if tool_piece is other.tool_piece else tool_piece.cost
            for name, text in texts.items():
                cost += 0 if text is other.texts.get(name) else text.cost
            if run is not other.run:
                ours, theirs = run.pieces, other.run.pieces
                own = compress(ours, map(is_not, ours, theirs))
                cost += sum(map(_COST, chain(own, ours[len(theirs) :])))
        self.cost = cost


def find_lane(lanes: Sequence[Lane], kin: Kinship) -> tuple[Lane | None, bool]:
    """Return the lane of a session that the prompt of ``kin`` extends, None for a new one.

    The second value is whether its history was rewritten (``Place.replaced``). Of several lanes
    that it may extend, one with an equal system text goes first.
    """
    prompt = kin.prompt
    tools, texts = prompt.tools, prompt.digests
    found, has_answers = [], kin.has_answers
    for lane in lanes:
        theirs, known = lane.prompt.tools, lane.prompt.digests
        is_whole = known and texts[: len(known)] == known
        if (
            theirs is tools
            or len(theirs & tools) >= _HALF * len(theirs | tools)
            or tools in lane.others
            or (is_whole and has_answers and kin.has_system_of(lane.plain))
        ):
            share = (1.0, len(known)) if is_whole else _share(known, texts)
            if is_whole or (share >= (_HALF, 0) and (has_answers or not _is_sibling(lane, kin))):
                found.append((share, lane))
    if len(found) > 1:
        found = [one for one in found if kin.has_system_of(one[1].plain)] or found
        most = max(share for share, _ in found)
        found = [one for one in found if one[0] == most]
    if found:
        return found[-1][1], False
    for lane in reversed(lanes):
        if lane.prompt.tools == tools and alike_systems(system_of(lane.prompt), system_of(prompt)):
            if not has_answers and _is_sibling(lane, kin):
                continue
            return lane, _begins_anew(lane.prompt, prompt)
    return None, False


def share_of(lanes: Iterable[Lane], prompt: Prompt) -> float:
    """Return the largest share (0 to 1) of a lane's last messages that ``prompt`` still has."""
    shares = (_share(lane.prompt.digests, prompt.digests) for lane in lanes)
    return max(shares, default=(0.0, 0))[0]


def is_another(lane: Lane, prompt: Prompt) -> bool:
    """Whether ``prompt`` has none of the lane's answers, and does not go on with all of it.

    Then it is of another conversation, unless all of this one was taken back.
    """
    known, texts = lane.prompt.digests, prompt.digests
    if texts[: len(known)] == known:
        return False
    answers = {
        digest for piece in lane.prompt.pieces if piece.is_answer for digest in piece.digests
    }
    return bool(answers) and answers.isdisjoint(texts)


def _is_sibling(lane: Lane, kin: Kinship) -> bool:
    """Whether a request without an answer of the model begins a sibling beside ``lane``.

    Several may begin under one name. The rest of a history that its client has rewritten differs
    from it in its first words.
    """
    if not kin.pieces or not kin.has_system_of(lane.plain):
        return False
    ours, theirs = (_first_of(prompt) for prompt in (kin.prompt, lane.prompt))
    if ours == theirs:
        return False
    return share_of_words(ours, theirs) >= _ONE_FORM or not _begins_anew(lane.prompt, kin.prompt)


def _first_of(prompt: Prompt) -> str:
    """Return the text of the first message."""
    pieces, heads = prompt.made.run.pieces, prompt.made.heads
    return "".join(_TEXT(one) for piece in pieces[heads : heads + 1] for one in piece.segments)


def system_of(prompt: Prompt) -> str:
    """Return the system text."""
    return "".join(map(_TEXT, prompt.of(Part.SYSTEM)))


def alike_systems(one: str, other: str) -> bool:
    """Whether two system texts are equal, but for some fields."""
    return one == other or share_of_words(one, other) >= _SAME_SYSTEM


def _is_branch(sent: Prompt, before: Prompt) -> bool:
    """Whether ``sent`` branches off from ``before``, which may be continued, too.

    Only branches with an answer of the model behind that place count: else nothing would be lost.
    """
    if sent.digests[: len(before.digests)] == before.digests:
        return False
    pieces, after = before.pieces, sent.pieces
    at = next((at for at in unlike(pieces, after) if pieces[at] != after[at]), None)
    if at is None or not any(map(_IS_ANSWER, pieces[at:])):
        return False
    left = parting(before, sent)
    rest = before.chars - left.shared
    return left.part is Part.MESSAGES and taken_back(before, left, sent) > _HALF * rest


def _begins_anew(before: Prompt, after: Prompt) -> bool:
    """Whether ``after`` is a rewritten ``before``: another beginning, and at most half as long.

    Otherwise a conversation only grows, or turns are taken back, which leaves its beginning.
    """
    (was, length), (now, left) = _opening(before), _opening(after)
    return was != now and 0 < 2 * left <= length


def _opening(prompt: Prompt) -> tuple[tuple[int, ...], int]:
    """Return the digests of the first message, and the number of messages."""
    texts, pieces, heads = prompt.digests, prompt.made.run.pieces, prompt.made.heads
    if len(pieces) <= heads:  # one text, or an API whose messages are not separated here
        return texts[:1], len(texts)
    return pieces[heads].digests, len(pieces) - heads


def _share(known: tuple[int, ...], messages: tuple[int, ...]) -> tuple[float, int]:
    """Return the share of ``known`` that is among ``messages``, and its number of texts."""
    count = sum(map(frozenset(messages).__contains__, known))
    return count / max(1, len(known)), count
