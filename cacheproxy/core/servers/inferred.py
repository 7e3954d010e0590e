"""What an upstream's answers have shown about it, if its pages do not say it.

Each fact comes from a verdict that has proved it (see ``cacheproxy.observe.judging``).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from cacheproxy.core.dialects.dialect import Dialect
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.core.servers.profile import MemoryKind, Profile, Reporting

_APPENDS = 3
"""Turns that did nothing but append, of which nothing was reused, after which nothing ever is."""
_MOST = 1 << 20
_MOST_MODELS = 64
_BY_TRAFFIC = "its answers"


class Inferred:
    """Facts about one upstream, in constant memory. ``changes`` grows when one is new.

    ``longest``: tokens of the longest prompt, by the model that it asked for.
    Fed on one thread at a time; read on any.
    """

    def __init__(self) -> None:
        self.changes = 0
        self.forget()

    def forget(self) -> None:
        """Begin anew: another server, or another model, may have taken its place."""
        self._orders: Counter[PromptOrder] = Counter()
        self._kind = MemoryKind.UNKNOWN
        self._reported: frozenset[Dialect] = frozenset()
        self._says_zero = False
        self._in_vain = 0
        self._reuses: bool | None = None
        self.longest: dict[str, int] = {}
        self.changes += 1

    def saw_order(self, order: PromptOrder) -> None:
        """Take note that what was reused fits this order of tools and system text alone."""
        if self._orders[order] < _MOST:
            before = self.order
            self._orders[order] += 1
            self.changes += before is not self.order

    def saw_prompt(self, model: str, tokens: int) -> None:
        """Take note of the longest prompt that ``model`` has read."""
        if len(self.longest) >= _MOST_MODELS:
            self.longest.clear()
        self.longest[model] = tokens

    def saw_rewind(self) -> None:
        """Take note that all was reused up to a change in mid-prompt, to the token.

        A checkpoint may happen to stand there: one that was seen to be missing says more.
        """
        if self._kind is MemoryKind.UNKNOWN:
            self._kind = MemoryKind.REWINDABLE
            self.changes += 1

    def saw_checkpoint(self, *, is_close: bool = False) -> None:
        """Take note that reuse stopped where the rendered prompts still agree.

        ``is_close``: but a few tokens before they part. One that was seen to rewind is not known by
        that: its prompts are rendered for us a little otherwise.
        """
        if self._kind is MemoryKind.CHECKPOINTED or (
            is_close and self._kind is MemoryKind.REWINDABLE
        ):
            return
        self._kind = MemoryKind.CHECKPOINTED
        self.changes += 1

    def saw_reuse(self, dialect: Dialect, reused: int | None, *, appended: bool = False) -> None:
        """Take note of the ``reused`` tokens that an answer in ``dialect`` told, None for nothing.

        ``appended``: the request did nothing but add to one that was answered before.
        """
        if reused is None or reused < 0:
            return
        if reused:
            self._in_vain = 0
            if dialect not in self._reported or self._reuses is not True:
                self._reported |= {dialect}
                self._reuses = True
                self.changes += 1
        elif not self._says_zero:
            self._says_zero = True
            self.changes += 1
        if not reused and appended and self._reuses is None:
            self._in_vain += 1
            if self._in_vain >= _APPENDS:
                self._reuses = False
                self.changes += 1

    def has_reported(self, dialect: Dialect) -> bool:
        """Whether answers in ``dialect`` told of reused tokens: then a count left out is zero."""
        return dialect in self._reported

    @property
    def order(self) -> PromptOrder | None:
        """The order that fits most turns, None where none fits more than another."""
        ranked = self._orders.most_common(2)
        if not ranked or (len(ranked) > 1 and ranked[0][1] == ranked[1][1]):
            return None
        return ranked[0][0]

    def completed(self, profile: Profile) -> Profile:
        """Return ``profile`` with what it does not say itself."""
        found: dict[str, object] = {}
        if profile.order is None and self.order is not None:
            found["order"] = self.order
        if profile.memory.kind is MemoryKind.UNKNOWN and self._kind is not MemoryKind.UNKNOWN:
            found["memory"] = replace(profile.memory, kind=self._kind)
        if self._reuses is not None and (profile.reuses is None or self._reuses):
            found["reuses"] = self._reuses
        reporting = self._reporting(profile.reporting)
        if reporting is not profile.reporting:
            found["reporting"] = reporting
        if not found:
            return profile
        told_by = ", ".join(filter(None, (profile.told_by, _BY_TRAFFIC)))
        return replace(profile, told_by=told_by, **found)  # type: ignore[arg-type]

    def _reporting(self, known: Reporting) -> Reporting:
        """Return when answers tell; what was seen says more than what is known of such servers."""
        if not self._reported:
            return known
        if known is Reporting.FLAGGED:
            is_flag_set = any(not dialect.says_reused for dialect in self._reported)
            return Reporting.ALWAYS if is_flag_set else known
        if known is Reporting.UNKNOWN or known is Reporting.NEVER:
            return Reporting.ALWAYS if self._says_zero else Reporting.WHEN_SOME
        return known
