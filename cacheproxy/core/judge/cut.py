"""Whether a server read less of a prompt than it was sent, and answered all the same.

Its own word is proof, else its count. A prompt that only goes on has all that the one before had,
and a token for each new word: tokenizers merge no words. Reasoning may go, so may what the model
said before an answer; late system messages may not be rendered at all. Ollama's templates for
Llama 3.1 and Mistral print tools (Mistral's: system text, too) only before a last message of the
user's. A prompt of exactly a context's size, by all signs of a longer one, was cut to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial

from cacheproxy.core.conversation.lanes import Before
from cacheproxy.core.conversation.verdict import Basis, Judgement, Reason, TokenCount, Verdict
from cacheproxy.core.dialects.content import THOUGHT_ENDS, Part, Segment
from cacheproxy.core.judge.evidence import Evidence, Parted
from cacheproxy.core.kinds.profile import UNKNOWN_KIND
from cacheproxy.core.prompt.prompt import is_late
from cacheproxy.core.prompt.segments import Piece

LEAST, _LEAST_SIZE = 1024, 2048
"""Tokens below which no count is looked at: no context is as small, but counts that are made up
are. Contexts that nobody told are powers of two, from the second number on."""
_DENSE, _PROSE = 5.0, 5.5
"""Characters to a token that what is new, and a whole prompt, have at most, as a rule: beyond,
words are counted."""
_SURE = 0.75
"""Share of its words from which a prompt may have as few tokens: some tokenizer might merge two."""
_WHOLE = 8
"""Characters to a token that no whole prompt has: so few tokens were evaluated of it beside those
that were reused. (Some servers count these twice.)"""
_LOOSE, _EACH = 32, 8
"""Tokens by which counts may differ, and for each message: marks, empty blocks, blanks."""
_BEYOND = 1.05
_PER_WORD, _PER_WIDE, _TOOL_CHARS = 1.3, 0.7, 6
"""Tokens of a word, and of a character of Chinese, Japanese or Korean; characters of tools to one:
an estimate."""
_MOST_WIDE = 4
"""Such characters to a token, at most."""
_WIDE = re.compile("[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
_MOST = 128 << 10
"""Characters of a later turn's prompt that are looked at whole: it may be judged on the reactor."""

_cut = partial(Verdict, Judgement.CUT, Reason.CUT)
_TOLD = _cut(basis=Basis.TOLD)


def cut_of(turn: Evidence, parted: Parted | None = None) -> Verdict | None:
    """Return that the prompt was cut, without the other figures of a verdict; None: not proven.

    ``parted``: the prompt compared with the one before, None for a first turn.
    """
    usage, sent, before = turn.usage, turn.sent, turn.before
    count, is_told = usage.prompt, usage.truncated
    if count is None or count < LEAST or not turn.is_whole:
        return _TOLD if is_told else None
    goes_on = (
        before is not None
        and before.tokens is not None
        and parted is not None
        and parted.left.was is None
        and before.sent.model == sent.model
        and not turn.meanwhile.moved
    )
    if goes_on and before is not None:
        new = sent.chars - before.sent.chars
        is_odd = before.floor is not None or _DENSE * (count - (before.tokens or 0)) < new
    else:
        is_odd = _PROSE * count < sent.chars
    is_size = count == turn.profile.memory.context
    is_size = is_size or (count >= _LEAST_SIZE and not count & (count - 1))
    if not (is_odd or is_size or is_told):
        return None
    whole = _whole(turn, count, parted if goes_on else None, is_odd=is_odd, is_size=is_size)
    if is_told:
        return _cut(basis=Basis.TOLD, whole=whole)
    return None if whole is None else _cut(basis=Basis.COUNTED, whole=whole)


def _whole(
    turn: Evidence, count: int, parted: Parted | None, *, is_odd: bool, is_size: bool
) -> TokenCount | None:
    """Return how many tokens the prompt has, if it has more than were read.

    ``parted``: it goes on from the one before.
    """
    before, sent = turn.before, turn.sent
    if turn.request is not None and (turn.request.json or {}).get("context_management"):
        return None  # the server was asked to leave some of it out
    if before is not None and parted is None and sent.chars > _MOST:
        return None
    if before is not None and parted is not None:
        if before.start is not None and turn.profile.start not in (None, before.start):
            return None  # perhaps another model
        floor = _floor(turn, count, before, parted, is_size=is_size) if is_odd else None
    else:
        words = _words(sent.pieces) if is_odd and _counts_all(turn) else 0
        floor = words if count < _SURE * words else None
    if floor is not None:
        return TokenCount(floor, "measured")
    reused = turn.usage.reused
    if not is_size or turn.longest > count or sent.chars > (_MOST if before else sent.chars):
        return None
    if reused is not None and 2 * reused > count:  # its start was not cut off
        return None
    about = _about(sent.pieces)
    if before is not None and parted is not None:
        about *= _least(before) / max(1.0, _about(before.sent.pieces))
    return TokenCount(round(about), "estimated") if about >= _BEYOND * count else None


def _floor(
    turn: Evidence, count: int, before: Before, parted: Parted, *, is_size: bool
) -> int | None:
    """Return how many tokens it has at least, if that is more than were counted."""
    was, now = parted.was, parted.now
    new = now.pieces[len(was.pieces) :]
    chars = sum(piece.chars for piece in new)
    words = _words(new) if chars <= now.chars - was.chars else 0  # else cut into other pieces
    floor = _least(before) + words
    if before.floor is None:  # reasoning that was left out of that was left out of the floor
        floor -= _may_go(was.pieces, is_asked=any(map(_is_asked, new)))
    if any(map(_is_asked, was.pieces[-1:])) and not (is_size or _is_asked(now.pieces[-1])):
        head = [piece for piece in was.pieces if piece.part is not Part.MESSAGES]
        floor -= sum(_most(segment) for piece in head for segment in piece.segments)
    if count >= floor - _LOOSE - _EACH * len(was.pieces):
        return None
    is_total = _counts_all(turn) or 2 * count > chars or count < _SURE * words
    return floor if is_total else None


def _counts_all(turn: Evidence) -> bool:
    """Whether the count is known to be of the whole prompt, not of what was evaluated alone."""
    server = turn.profile.server
    return turn.usage.reused is not None or (server is not None and server.kind != UNKNOWN_KIND)


def _least(before: Before) -> int:
    """Return how many tokens the prompt of ``before`` has at least."""
    if before.floor is not None:
        return before.floor
    tokens, evaluated = before.tokens or 0, before.evaluated
    return tokens if evaluated is None or evaluated * _WHOLE < before.sent.chars else evaluated


def _words(pieces: Iterable[Piece]) -> int:
    """Return how many tokens they have at least: those texts that each template renders."""
    words = 0
    for piece in pieces:
        if piece.part is Part.TOOLS or is_late(piece):
            continue
        for segment in piece.segments:
            if segment.source != "model":
                words += len(segment.text.split()) + _wide(segment.text) // _MOST_WIDE
    return words


def _about(pieces: Iterable[Piece]) -> float:
    """Return about how many tokens they have."""
    about = 0.0
    for piece in pieces:
        if piece.part is Part.TOOLS:
            about += piece.chars / _TOOL_CHARS
            continue
        for segment in piece.segments:
            about += _PER_WORD * len(segment.text.split()) + _PER_WIDE * _wide(segment.text)
    return about


def _wide(text: str) -> int:
    return 0 if text.isascii() else len(text) - len(_WIDE.sub("", text))


def _is_asked(piece: Piece) -> bool:
    """Whether the user says it."""
    return any(segment.source == "user" for segment in piece.segments)


def _may_go(pieces: Iterable[Piece], *, is_asked: bool) -> int:
    """Return how many tokens of what the model said may not be rendered any more, at most.

    ``is_asked``: the user has said something since, so some templates drop more than reasoning.
    """
    size = 0
    for piece in pieces:
        for segment in piece.segments:
            is_thought = segment.role == "reasoning" or segment.path.endswith(THOUGHT_ENDS)
            if segment.source == "model" and (is_asked or is_thought):
                size += _most(segment)
    return size


def _most(segment: Segment) -> int:
    """Return how many tokens it has at most, as a rule."""
    return len(segment.text.encode("utf-8", "surrogatepass")) // 2
