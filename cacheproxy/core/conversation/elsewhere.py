"""Turns of a conversation that this proxy has not seen, though it saw those before them."""

from __future__ import annotations

from itertools import groupby

from cacheproxy.core.conversation.turn import Turn


def was_elsewhere(turn: Turn) -> bool:
    """Whether somebody else must have had a request between ``turn`` and the one before it here.

    The model has spoken twice since, and was answered between: another proxy asked it, or nobody.
    """
    if turn.lane is None or turn.prompt is None or turn.replaced:
        return False
    known, pieces = turn.lane.prompt.pieces, turn.prompt.pieces
    if pieces[: len(known)] != known:  # the client tells its story in another way
        return False
    new = (segment for piece in pieces[len(known) :] for segment in piece.segments)
    sources = (segment.source for segment in new if segment.source != "client")
    return sum(source == "model" for source, _ in groupby(sources)) > 1
