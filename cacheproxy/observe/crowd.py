"""The crowd at a server: which tokens conversations took from one another, by their last turns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.verdict import Reason, Sign
from cacheproxy.core.judge.explain import FELT
from cacheproxy.core.kinds.crowds import Crowd
from cacheproxy.record.exchange import Exchange

_DAY = 86_400.0
_SAME_HEAD = 0.8
"""Share of a prompt from which on the remaining tokens are the head of a conversation that begins
alike: between the two thirds and the nine tenths that were measured."""
_CLOSE = 0.05
"""Share of the tokens by which two heads may differ and count as one: they are estimated."""
_AGAIN = 0.5
"""Share of a head that must be evaluated again before it counts as not shared."""
_Conversation = tuple[Session | None, int]


class SeenCrowd(NamedTuple):
    """The crowd with the greatest loss."""

    crowd: Crowd  #: the kind of crowd
    conversations: int  #: number of its conversations that lost something
    lost: int  #: tokens evaluated again, at most
    seconds: float  #: seconds since the first of the turns began


def crowd_of(exchanges: Iterable[Exchange], url: str, now: float) -> SeenCrowd | None:
    """Return the crowd at the server ``url`` in the last day; None if no loss is worth mention.

    ``exchanges``: the last ones, in any order; ``now``: seconds since the epoch.
    """
    turns = sorted(
        (
            one
            for one in exchanges
            if one.upstream == url and one.turn and not one.went_wrong and one.wall > now - _DAY
        ),
        key=lambda one: one.wall,
    )
    lost: defaultdict[Crowd, int] = defaultdict(int)
    losers: defaultdict[Crowd, set[_Conversation]] = defaultdict(set)
    for crowd, turn, tokens in (*_taken(turns), *_together(turns)):
        lost[crowd] += tokens
        losers[crowd].add(_conversation(turn))
    prompts = sum(one.usage.prompt or 0 for one in turns)
    if not lost or max(lost.values()) < FELT * prompts:
        return None
    crowd = max(lost, key=lost.__getitem__)
    return SeenCrowd(crowd, len(losers[crowd]), lost[crowd], now - turns[0].wall)


def _conversation(turn: Exchange) -> _Conversation:
    return turn.session, 0 if turn.place is None else turn.place.lane


def _root(turn: Exchange) -> Session | None:
    return (turn.place.root if turn.place is not None else None) or turn.session


def _taken(turns: list[Exchange]) -> Iterator[tuple[Crowd, Exchange, int]]:
    """Yield turns whose cache another conversation took, and the tokens that they lost."""
    last: dict[_Conversation, int] = {}
    for number, turn in enumerate(turns):
        mine = _conversation(turn)
        before, last[mine] = last.get(mine), number
        verdict, lost = turn.verdict, turn.lost
        if before is None or verdict is None or verdict.reason is not Reason.EVICTED or not lost:
            continue
        if Sign.OTHERS not in verdict.evidence or Sign.RESTARTED in verdict.evidence:
            continue
        between = turns[before + 1 : number]
        if any(_root(one) == _root(turn) and _conversation(one) != mine for one in between):
            yield Crowd.SUBAGENTS, turn, lost
            continue
        kept = turn.usage.reused or 0
        is_head = kept >= _SAME_HEAD * (kept + lost)
        yield Crowd.HEAD if is_head else Crowd.TURNS, turn, lost


def _together(turns: list[Exchange]) -> Iterator[tuple[Crowd, Exchange, int]]:
    """Yield first turns that read a head which another read at the same time, with its tokens.

    Two heads of one client count as one if tools and system text are as long.
    """
    running: list[tuple[int, Exchange]] = []
    for turn in turns:
        if turn.parts is None or (turn.place.turn if turn.place is not None else turn.turn) != 1:
            continue
        running = [(size, one) for size, one in running if one.ended > turn.wall]
        head = turn.parts.tools + turn.parts.system
        lost = head - (turn.usage.reused or 0)
        is_shared = any(
            one.client == turn.client and abs(size - head) <= _CLOSE * head for size, one in running
        )
        if is_shared and lost > _AGAIN * head:
            yield Crowd.TOGETHER, turn, lost
        running.append((head, turn))
