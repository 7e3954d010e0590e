"""What the server says it did: prompt tokens reused and evaluated, tokens generated, speed.

Law 6: the dialects count differently. Anthropic's ``input_tokens`` excludes cached tokens,
OpenAI's ``prompt_tokens`` and ``input_tokens`` include them. Sources: the API references of
Anthropic Messages, OpenAI Chat Completions and Responses, and DeepSeek; Ollama's ``docs/api.md``,
llama.cpp's ``tools/server/README.md`` for ``timings``, vLLM's ``PromptTokenUsageInfo``. A missing
count is unknown here, even if the server leaves zeros out (as SGLang does).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cacheproxy.core.dialects.dialect import UsageSpelling
from cacheproxy.core.dialects.dialects import USAGES

_TOO_MUCH = 1 << 53
"""Numbers from here on are nonsense, and too large for the sums to come."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Counts as measured by the server; None where it did not say.

    Parts that are more than the whole are unknown.
    """

    prompt: int | None = None  #: all tokens of the prompt
    reused: int | None = None  #: those from the cache
    output: int | None = None  #: generated tokens
    prompt_seconds: float | None = None  #: the server's own time for the evaluated tokens alone
    output_seconds: float | None = None  #: the server's own time for the generated ones
    written: int | None = None  #: tokens of the prompt that the server put into its cache

    def __post_init__(self) -> None:
        """Forget parts that are more than the whole: who knows which of the counts is wrong."""
        if self.prompt is None:
            return
        if self.reused is not None and self.reused > self.prompt:
            object.__setattr__(self, "reused", None)
        if self.written is not None and self.written + (self.reused or 0) > self.prompt:
            object.__setattr__(self, "written", None)

    @property
    def evaluated(self) -> int | None:
        """Prompt tokens that were computed: all of them less the reused."""
        if self.prompt is None or self.reused is None:
            return None
        return self.prompt - self.reused

    def merged(self, later: Usage) -> Usage:
        """Return these figures, overridden by those that ``later`` knows."""
        if later is NOTHING or self is NOTHING:
            return self if later is NOTHING else later
        prompt = self.prompt if later.prompt is None else later.prompt
        if later.reused is None and self.reused is not None and self.prompt is not None:
            # A prompt without its cached part, after one with it, may be the fresh part alone.
            prompt = max(self.prompt, later.prompt or 0)
        return Usage(
            prompt,
            self.reused if later.reused is None else later.reused,
            self.output if later.output is None else later.output,
            self.prompt_seconds if later.prompt_seconds is None else later.prompt_seconds,
            self.output_seconds if later.output_seconds is None else later.output_seconds,
            self.written if later.written is None else later.written,
        )


NOTHING = Usage()
"""What a message that says nothing of usage says."""
_INSIDE = [each for each in USAGES if not each.hint]
_ALONE = [each for each in USAGES if each.hint]


def usage_of(message: Any) -> Usage:
    """Return what one JSON message of a response, in whichever dialect, says of usage."""
    if not isinstance(message, dict):
        return NOTHING
    found = NOTHING
    for holder in (message, message.get("message"), message.get("response")):
        if isinstance(holder, dict):
            if "usage" in holder:
                found = found.merged(_spelled(holder["usage"]))
            if "timings" in holder:
                found = found.merged(_timings(holder["timings"]))
    for each in _ALONE:
        if not message.keys().isdisjoint(each.signs):
            found = found.merged(_read(message, each))
    return found


def _spelled(usage: Any) -> Usage:
    if isinstance(usage, dict):
        for each in _INSIDE:
            if not usage.keys().isdisjoint(each.signs):
                return _read(usage, each)
    return NOTHING


def _read(usage: dict[str, Any], spelling: UsageSpelling) -> Usage:
    found: list[int | None] = []
    for paths in (spelling.prompt, spelling.output, spelling.reused, spelling.written):
        count = None
        for path in paths:
            value: Any = usage
            for name in path.split("."):
                value = value.get(name) if isinstance(value, dict) else None
            count = _count(value)
            if count is not None:
                break
        found.append(count)
    prompt, output, reused, written = found
    if spelling.is_rest:
        parts = map(usage.get, (*spelling.reused, *spelling.written))
        is_odd = any(said is not None and _count(said) is None for said in parts)
        if prompt is None or is_odd:  # the whole is the sum of its parts
            return Usage(output=output)
        prompt += (reused or 0) + (written or 0)
    seconds = [_seconds(usage.get(name), 1e9) for name in spelling.seconds] or (None, None)
    return Usage(prompt, reused, output, seconds[0], seconds[1], written)


def _timings(timings: Any) -> Usage:
    if not isinstance(timings, dict):
        return NOTHING
    reused, evaluated = _count(timings.get("cache_n")), _count(timings.get("prompt_n"))
    both = reused is not None and evaluated is not None
    return Usage(
        prompt=(reused or 0) + (evaluated or 0) if both else None,
        reused=reused if both else None,
        output=_count(timings.get("predicted_n")),
        prompt_seconds=_seconds(timings.get("prompt_ms"), 1e3),
        output_seconds=_seconds(timings.get("predicted_ms"), 1e3),
    )


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < _TOO_MUCH else None


def _seconds(value: Any, per_second: float) -> float | None:
    is_number = type(value) is int or type(value) is float
    return value / per_second if is_number and 0 <= value < _TOO_MUCH else None


def summed(values: Iterable[Any]) -> Any:
    """Return the sum of ``values``; None if one of them is unknown."""
    known = list(values)
    return None if None in known else sum(known)
