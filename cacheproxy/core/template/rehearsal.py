"""A rehearsal: a conversation that only grows, as a server's chat template renders it turn by turn.

It has tools, thinking, a tool's result, an answer and a second user message. If a later rendering
does not begin with the earlier one, the server reads the rest again. The pages are those of
``rendering``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from cacheproxy.core.conversation.verdict import Rewrite
from cacheproxy.core.document.compare import common_prefix
from cacheproxy.core.server.clock import clock_in
from cacheproxy.core.template.questions import (
    CALL,
    ENDED,
    FIRST,
    HEAD,
    KEEPERS,
    ONE,
    OPEN,
    RESULT,
    SAYS,
    THOUGHT,
    THREE,
    TWO,
    Json,
    turn,
)
from cacheproxy.core.template.rendering import Asking, render

Texts = tuple[str, str, str]
_Ask = Callable[[Json], Asking[str | None]]
"""Has one conversation rendered."""
Rehearsing = Generator[bytes, tuple[int, bytes], "Rehearsal | None"]
_LAST = {FIRST: ONE, OPEN: RESULT, ENDED: THREE}
"""What is said last in each request."""
_MARKS = (HEAD, SAYS, ONE, THOUGHT, CALL, RESULT, TWO)
AT_RESULT, AT_USER = "at a tool's result", "at the second user message"


@dataclass(frozen=True, slots=True)
class Lapse:
    """One place where the conversation does not only grow."""

    when: str  #: AT_RESULT or AT_USER
    rewrite: Rewrite  #: what is rendered anew
    sent_back: bool  #: whether the client sent its reasoning back
    after: str  #: what is read again, for people
    does: str  #: what the template does there, for people

    @property
    def says(self) -> str:
        """One sentence for people, without its end."""
        return f"{self.when} this template {self.does}: the server reads {self.after} again"


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What the rehearsal showed."""

    lapses: tuple[Lapse, ...]  #: where it does not only grow
    cure: tuple[str, bool] | None
    """The member of chat_template_kwargs that keeps thinking, and its value; None: none does."""
    clock: str  #: "the date" or "the time" where that stands in the prompt, "" where neither does

    def lapse(self, rewrite: Rewrite, *, sent_back: bool) -> Lapse | None:
        """Return the first lapse of a kind, if there is one."""
        found = (one for one in self.lapses if one.rewrite is rewrite)
        return next((one for one in found if one.sent_back is sent_back), None)


def rehearsing(path: str, now: datetime, model: str = "") -> Rehearsing:
    """Ask the page ``path``, whoever sends the bodies that this yields.

    It takes the status and the body of each answer; returns None where the conversation is not
    rendered. Raises NoPageError.
    """
    ask = partial(render, path, model=model)
    found: list[Lapse] = []
    clock = ""
    for sent_back in (True, False):
        texts = yield from _rendered(ask, sent_back=sent_back)
        if texts is None:
            return None
        clock = clock or clock_in(texts[0], now)
        found += lapses(texts, sent_back=sent_back)
    cure = None
    if any(lapse.rewrite is Rewrite.THINKING for lapse in found):
        cure = yield from _cure(found, ask)
    return Rehearsal(tuple(found), cure, clock)


def lapses(texts: Texts, *, sent_back: bool) -> list[Lapse]:
    """Return where the second and the third of three rendered prompts leave the one before."""
    first, second, third = texts
    steps = ((AT_RESULT, first, second), (AT_USER, second, third))
    found = (_lapse(when, one, other, sent_back=sent_back) for when, one, other in steps)
    return [lapse for lapse in found if lapse is not None]


def _rendered(
    ask: _Ask, *, sent_back: bool, kwargs: dict[str, bool] | None = None
) -> Generator[bytes, tuple[int, bytes], Texts | None]:
    """Ask for each request; None if one is refused, or has not all of what was said last."""
    texts: list[str] = []
    for name, question in turn(THOUGHT if sent_back else "").items():
        asked = question | {"chat_template_kwargs": kwargs} if kwargs else question
        text = yield from ask(asked)
        if text is None or _LAST[name] not in text:
            return None
        texts.append(text)
    return texts[0], texts[1], texts[2]


def _cure(
    found: list[Lapse], ask: _Ask
) -> Generator[bytes, tuple[int, bytes], tuple[str, bool] | None]:
    """Try each member; one that does nothing changes nothing."""
    for name, value in KEEPERS:
        left: list[Lapse] = []
        for sent_back in sorted({lapse.sent_back for lapse in found}):
            texts = yield from _rendered(ask, sent_back=sent_back, kwargs={name: value})
            if texts is None:
                break
            left += lapses(texts, sent_back=sent_back)
        else:
            if not any(lapse.rewrite is Rewrite.THINKING for lapse in left):
                return name, value
    return None


def _lapse(when: str, before: str, after: str, *, sent_back: bool) -> Lapse | None:
    kept = common_prefix(before, after)
    marks = [mark for mark in _MARKS if mark in before]
    if kept >= max(before.rfind(mark) + len(mark) for mark in marks):
        return None
    rewrite, does = _what(before, after, kept, sent_back=sent_back)
    asked = before.find(ONE) + len(ONE)
    return Lapse(when, rewrite, sent_back, _after(before, kept, asked), does)


def _what(before: str, after: str, kept: int, *, sent_back: bool) -> tuple[Rewrite, str]:
    moved = _moved(before, after)
    if moved == SAYS:
        return Rewrite.TOOLS, "moves the tools, which it prints in the last user message"
    if moved == HEAD:
        return Rewrite.OTHER, "moves the system text, which it prints in the last user message"
    if THOUGHT in before and before.count(THOUGHT) > after.count(THOUGHT):
        return Rewrite.THINKING, "drops the thinking of the turn before"
    between = before.find(ONE) + len(ONE) <= kept <= before.find(CALL)
    if not sent_back and between:
        return Rewrite.THINKING, "drops the empty thinking block that it had written"
    return Rewrite.OTHER, "changes text that it had rendered before"


def _moved(before: str, after: str) -> str | None:
    """Return the mark of what stood at the head, and has less behind it than it had."""
    for mark in (SAYS, HEAD):
        if mark in before and _behind(mark, after) < _behind(mark, before):
            return mark
    return None


def _behind(mark: str, text: str) -> set[str]:
    """Return which messages stand behind ``mark``."""
    at = text.find(mark)
    return {other for other in (ONE, RESULT) if text.rfind(other) > at}


def _after(before: str, kept: int, asked: int) -> str:
    if kept >= asked:
        return "everything after the first user message"
    head = before.find(HEAD)
    if head >= 0 and head + len(HEAD) <= kept:
        return "everything after the system text"
    return "the whole prompt"
