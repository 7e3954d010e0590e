"""Cut prompts: a server evaluated only a part of the prompt, and answered all the same.

Proof is the server's own report, else its count. A prompt that only continues has all tokens of
the one before, and one for each new word: tokenizers merge no words. Templates may drop reasoning
and the model's text before an answer; late system messages may not be rendered at all. Ollama's
templates for Llama 3.1 and Mistral print tools (Mistral's: system text, too) only before a last
user message. A prompt of exactly a context's size, if all signs are of a longer one, was cut to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial

from cacheproxy.core.conversation.lanes import Before
from cacheproxy.core.conversation.verdict import Basis, Judgement, Reason, TokenCount, Verdict
from cacheproxy.core.dialects.content import THOUGHT_ENDS, Part, Segment
from cacheproxy.core.diff.text import words_of
from cacheproxy.core.judge.evidence import Evidence, Parted
from cacheproxy.core.kinds.profile import UNKNOWN_KIND
from cacheproxy.core.prompt.prompt import is_late
from cacheproxy.core.prompt.segments import Piece

LEAST, _LEAST_SIZE = 1024, 2048
"""Tokens below which a count is ignored: made-up counts are that small, contexts are not. Unknown
contexts are powers of two, from the second number on."""
_DENSE, _PROSE = 5.0, 5.5
"""Characters per token of new text and of a whole prompt, usually at most: beyond these, words are
counted."""
_SURE = 0.75
"""Tokens of a prompt at least, as a share of its words: some tokenizer might merge two."""
_WHOLE = 8
"""Characters per token that no whole prompt has: its count is then of the evaluated tokens alone.
(Some servers count reused ones twice.)"""
_LOOSE, _EACH = 32, 8
"""Tokens by which counts may differ, in all and per message: marks, empty blocks, blanks."""
_BEYOND = 1.05
_PER_WORD, _PER_WIDE, _TOOL_CHARS = 1.3, 0.7, 6
"""Estimates: tokens per word, tokens per Chinese, Japanese or Korean character, and characters per
token in tools."""
_MOST_WIDE = 4
"""Chinese, Japanese or Korean characters per token, at most."""
_WIDE = re.compile("[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
_MOST = 128 << 10
"""Characters of a later turn's prompt that are read as a whole: judging may be on the reactor."""

_cut = partial(Verdict, Judgement.CUT, Reason.CUT)
_REPORTED = _cut(basis=Basis.TOLD)


def cut_of(turn: Evidence, parted: Parted | None = None) -> Verdict | None:
    """Return the verdict that the prompt was cut, without other figures; None if not proven.

    ``parted``: the prompt compared with the one before, None for a first turn.
    """
    usage, sent, before = turn.usage, turn.sent, turn.before
    count, is_told = usage.prompt, usage.truncated
    if count is None or count < LEAST or not turn.is_whole:
        return _REPORTED if is_told else None
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
    """Return the number of the prompt's tokens, if it has more than ``count``; else None.

    ``parted``: comparison with the prompt before, if this one only continues it.
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
    """Return the tokens that the prompt has at least, if these are more than ``count``."""
    was, now = parted.was, parted.now
    new = now.pieces[len(was.pieces) :]
    chars = sum(piece.chars for piece in new)
    words = _words(new) if chars <= now.chars - was.chars else 0  # else cut into other pieces
    floor = _least(before) + words
    if before.floor is None:  # reasoning that was left out of that was left out of the floor
        floor -= _may_go(was.pieces, has_users=any(map(_is_users, new)))
    if any(map(_is_users, was.pieces[-1:])) and not (is_size or _is_users(now.pieces[-1])):
        head = [piece for piece in was.pieces if piece.part is not Part.MESSAGES]
        floor -= sum(_most(segment) for piece in head for segment in piece.segments)
    if count >= floor - _LOOSE - _EACH * len(was.pieces):
        return None
    is_total = _counts_all(turn) or 2 * count > chars or count < _SURE * words
    return floor if is_total else None


def _counts_all(turn: Evidence) -> bool:
    """Whether the count is known to be of the whole prompt, not of its evaluated part."""
    server = turn.profile.server
    return turn.usage.reused is not None or (server is not None and server.kind != UNKNOWN_KIND)


def _least(before: Before) -> int:
    """Return the tokens that the prompt of ``before`` has at least."""
    if before.floor is not None:
        return before.floor
    tokens, evaluated = before.tokens or 0, before.evaluated
    return tokens if evaluated is None or evaluated * _WHOLE < before.sent.chars else evaluated


def _words(pieces: Iterable[Piece]) -> int:
    """Return the tokens of ``pieces`` at least: of the texts that every template renders."""
    words = 0
    for piece in pieces:
        if piece.part is Part.TOOLS or is_late(piece):
            continue
        for segment in piece.segments:
            if segment.source != "model":
                words += _number_of_words(segment.text) + _wide(segment.text) // _MOST_WIDE
    return words


def _number_of_words(text: str) -> int:
    return sum(map(len, words_of(text)))


def _about(pieces: Iterable[Piece]) -> float:
    """Return an estimate of the tokens of ``pieces``."""
    about = 0.0
    for piece in pieces:
        if piece.part is Part.TOOLS:
            about += piece.chars / _TOOL_CHARS
            continue
        for segment in piece.segments:
            about += _PER_WORD * _number_of_words(segment.text) + _PER_WIDE * _wide(segment.text)
    return about


def _wide(text: str) -> int:
    return 0 if text.isascii() else len(text) - len(_WIDE.sub("", text))


def _is_users(piece: Piece) -> bool:
    """Whether ``piece`` is the user's text."""
    return any(segment.source == "user" for segment in piece.segments)


def _may_go(pieces: Iterable[Piece], *, has_users: bool) -> int:
    """Return the tokens of the model's text that templates may drop, at most.

    ``has_users``: whether a user message follows, so that some drop more than reasoning.
    """
    size = 0
    for piece in pieces:
        for segment in piece.segments:
            is_thought = segment.role == "reasoning" or segment.path.endswith(THOUGHT_ENDS)
            if segment.source == "model" and (has_users or is_thought):
                size += _most(segment)
    return size


def _most(segment: Segment) -> int:
    """Return the tokens of ``segment``, usually at most."""
    return len(segment.text.encode("utf-8", "surrogatepass")) // 2
