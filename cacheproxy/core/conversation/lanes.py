"""Which requests of a session extend one another, and which are side requests.

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
from cacheproxy.core.prompt.segments import PieceRun, unlike

_COST, _TEXT, _IS_ANSWER = map(attrgetter, ("cost", "text", "is_answer"))
_EACH, _EACH_HEADER = 2500, 150
"""Bytes that Python adds to the texts of a lane and of a header, as measured."""
_HALF = 0.5
_MOST_OTHERS = 3
_MOST_BRANCHES = 3
_ONE_FORM = 0.8
"""Share of its words from which a first message is made of the same form as another."""
_SAME_SYSTEM = 0.6
"""Share of its words from which a system text is the same one, some fields of it changed."""


class Pair(NamedTuple):
    """A request and the one before it in its lane, as the rules left both.

    That is how a rule of the user's own would see them: it comes after all others.
    """

    before: Request  #: the earlier request
    after: Request  #: the later one
    turn: int = 0  #: of the later one
    curable: bool = False  #: whether a rule may help, by the shape of what changed


class Place(NamedTuple):
    """Where a request belongs in its conversation."""

    lane: int  #: from 0, in the order of their first requests
    turn: int  #: in its lane, from 1
    is_side: bool  #: whether it is beside the conversation, as far as was known when it came
    replaced: bool = False  #: its history was written anew, and is much shorter (a compaction)
    pair: Pair | None = None  #: the request with the one before, until it is judged
    history: History | None = None  #: its own, where values may be put back; until it is judged
    root: Session | None = None  #: the session that its own works for
    beside: int = 0  #: which of the lanes that are not the conversation's own it is; 0: that one


class Before(NamedTuple):
    """The turn before."""

    sent: Prompt  #: its prompt as sent
    unedited: Prompt  #: its prompt as it came
    tokens: int | None = None  #: of its prompt, if they were counted
    request: Request | None = None  #: as sent, to be rendered again
    upstream: str = ""  #: where it went
    generated: int | None = None  #: tokens of its answer
    was_ok: bool = False  #: whether it had reused all of the one before
    ended: float = 0.0  #: seconds since the epoch
    start: str | None = None  #: of the server then (see ``Profile``)
    evaluated: int | None = None  #: of its tokens, if the server said what it reused
    floor: int | None = None  #: tokens that it has at least, where the server read less
    warmed: int = 0  #: how many servers that were restarted have read it again


class Home(NamedTuple):
    """Where a lane's prefix is, of several upstreams."""

    name: str  #: the upstream's
    route: str = ""  #: the one taken there
    start: str | None = None  #: of the server then (see ``Profile``)


@dataclass(eq=False, slots=True)
class Lane:
    """Requests that extend one another."""

    number: int  #: from 0, in the order of their first
    request: Request  #: the last one that went upstream, as the rules left it
    prompt: Prompt  #: what that says, tools first
    plain: Prompt  #: the same before pins had put anything back, by which it is known again
    others: dict[frozenset[str], Request] = field(default_factory=dict)
    """The last requests with other tools, by the tools' names."""
    turns: int = 0  #: how many were evaluated
    before: Before | None = None  #: the last evaluated turn; None before the first
    branches: tuple[Before, ...] = ()
    """The last turns of other branches (siblings that go on side by side, turns taken back)."""
    broken: Pair | None = None  #: the last turn that broke, for a rule to be proven on
    home: Home | None = None  #: None where there has been one upstream
    cost: int = 0  #: bytes that all of it takes, roughly
    _own: dict[tuple[int, int], tuple[PieceRun, PieceRun, int]] = field(default_factory=dict)
    """What messages cost that others have not: a long conversation is counted each turn."""

    def go_on(self, request: Request, prompt: Prompt, plain: Prompt) -> int:
        """Take note that ``request`` went upstream.

        Return by how many bytes its cost has grown, roughly, until it is counted.
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

        Each model has a cache of its own: a turn of another is compared with where none is known.
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
        """Return the branches that there are once ``turn`` was evaluated; may take its time.

        ``before``: the one that it was compared with.
        """
        last, branches = self.before, self.branches
        if turn is before or last is None or turn is None:
            return branches
        kept = [one for one in branches if one is not before] if branches else []
        was_branch = len(kept) < len(branches)
        is_other = last.sent.model != turn.sent.model or last.sent.tools != turn.sent.tools
        if was_branch or is_other or (last is before and _is_branch(turn.sent, last.sent)):
            return (*kept, last)[-_MOST_BRANCHES:]
        return branches

    def count(self) -> None:
        """Count its cost: what two prompts have in common is there but once."""
        prompt, body = self.prompt, self.request.body
        requests = [self.request, *self.others.values()]
        if self.broken is not None:
            requests += self.broken[:2]
        pairs = [(self.plain, prompt)]
        for one in () if self.before is None else (self.before, *self.branches):
            if one.request is not None and one.request.body is not body:
                requests.append(one.request)
            pairs += ((one.sent, prompt), (one.unedited, one.sent))
        cost = _EACH + prompt.cost
        for request in requests:  # without what is read of them; a head may be as long as a body
            cost += len(request.body) + len(request.target) + _EACH_HEADER * len(request.headers)
            cost += sum(map(len, chain.from_iterable(request.headers)))
        known, self._own = self._own, {}
        for prompt, other in pairs:
            (tool_piece, texts, run, _), made = prompt.made, other.made
            if made is prompt.made:
                continue
            cost += 0 if tool_piece is made.tool_piece else tool_piece.cost
            for name, text in texts.items():
                cost += 0 if text is made.texts.get(name) else text.cost
            if run is not made.run:
                pair = id(run), id(made.run)
                found = known.get(pair)
                if found is None or found[0] is not run or found[1] is not made.run:
                    ours, theirs = run.pieces, made.run.pieces
                    own = compress(ours, map(is_not, ours, theirs))
                    found = run, made.run, sum(map(_COST, chain(own, ours[len(theirs) :])))
                self._own[pair] = found
                cost += found[2]
        self.cost = cost


def find_lane(lanes: Sequence[Lane], kin: Kinship) -> tuple[Lane | None, bool]:
    """Return the lane of a session that the prompt of ``kin`` extends, None for a new one.

    And whether its history was written anew (``Place.replaced``). Of several that it may extend,
    one that has its system text goes first.
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
            if share >= (_HALF, 0) and (is_whole or has_answers or not _is_sibling(lane, kin)):
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
    """Return how much of a lane's last messages ``prompt`` still has (0 to 1, the best)."""
    shares = (_share(lane.prompt.digests, prompt.digests) for lane in lanes)
    return max(shares, default=(0.0, 0))[0]


def is_another(lane: Lane, prompt: Prompt) -> bool:
    """Whether ``prompt`` begins as the lane did, but has none of the answers in it.

    So it is of another conversation, unless somebody has taken back all there was.
    """
    known, texts = lane.prompt.digests, prompt.digests
    if texts[: len(known)] == known:
        return False
    answers = {
        digest for piece in lane.prompt.pieces if piece.is_answer for digest in piece.digests
    }
    return bool(answers) and answers.isdisjoint(texts)


def _is_sibling(lane: Lane, kin: Kinship) -> bool:
    """Whether a request in which the model has not answered begins beside ``lane``.

    Several may begin so under one name. What is left of a history that its client has written anew
    begins with other words than that did.
    """
    if not kin.pieces or not kin.has_system_of(lane.plain):
        return False
    ours, theirs = (_first_of(prompt) for prompt in (kin.prompt, lane.prompt))
    if ours == theirs:
        return False
    return share_of_words(ours, theirs) >= _ONE_FORM or not _begins_anew(lane.prompt, kin.prompt)


def _first_of(prompt: Prompt) -> str:
    """Return the first message."""
    pieces, heads = prompt.made.run.pieces, prompt.made.heads
    return "".join(_TEXT(one) for piece in pieces[heads : heads + 1] for one in piece.segments)


def system_of(prompt: Prompt) -> str:
    """Return the system text."""
    return "".join(map(_TEXT, prompt.of(Part.SYSTEM)))


def alike_systems(one: str, other: str) -> bool:
    """Whether two system texts are one, some fields of it changed."""
    return one == other or share_of_words(one, other) >= _SAME_SYSTEM


def _is_branch(sent: Prompt, before: Prompt) -> bool:
    """Whether ``sent`` goes another way than ``before``, which may be gone on with, too.

    The model has answered there already, else nothing would be lost.
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
    """Whether ``after`` is ``before`` in other words: neither its beginning, nor half as long.

    A conversation only grows, and a turn taken back keeps the beginning.
    """
    (was, length), (now, left) = _opening(before), _opening(after)
    return was != now and 0 < 2 * left <= length


def _opening(prompt: Prompt) -> tuple[tuple[int, ...], int]:
    """Return the digests of the first message, and how many messages there are."""
    texts, pieces, heads = prompt.digests, prompt.made.run.pieces, prompt.made.heads
    if len(pieces) <= heads:  # one text, or an API whose messages are not told apart
        return texts[:1], len(texts)
    return pieces[heads].digests, len(pieces) - heads


def _share(known: tuple[int, ...], messages: tuple[int, ...]) -> tuple[float, int]:
    """How much of ``known`` is among ``messages``, and how many texts that is."""
    count = sum(map(frozenset(messages).__contains__, known))
    return count / max(1, len(known)), count
