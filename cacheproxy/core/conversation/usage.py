"""Usage, as reported by the server: prompt tokens reused and evaluated, tokens generated, times.

Law 6: the dialects count differently. Anthropic's ``input_tokens`` excludes cached tokens,
OpenAI's ``prompt_tokens`` and ``input_tokens`` include them. Sources: the API references of
Anthropic Messages, OpenAI Chat Completions and Responses, and DeepSeek; Ollama's ``docs/api.md``,
llama.cpp's ``tools/server/README.md`` for ``timings``, vLLM's ``PromptTokenUsageInfo``. A missing
count is unknown here, even if the server leaves zeros out (as SGLang does).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

import msgspec
from msgspec.structs import force_setattr

from cacheproxy.core.dialects.dialect import UsageSpelling
from cacheproxy.core.dialects.dialects import USAGES

_Json = dict[str, Any]
_TOO_MUCH = 1 << 53
"""Numbers from here on are nonsense, and too large to be summed."""


class Usage(msgspec.Struct, frozen=True):
    """Counts as measured by the server, None for those that it does not report.

    Parts that exceed the whole are None, since any of the counts may be the wrong one.
    """

    prompt: int | None = None  #: all tokens of the prompt
    reused: int | None = None  #: tokens of the prompt from the cache
    output: int | None = None  #: generated tokens
    prompt_seconds: float | None = None  #: server's own time for the evaluated tokens alone
    output_seconds: float | None = None  #: server's own time for the generated tokens
    written: int | None = None  #: tokens of the prompt that the server put into its cache
    evaluated: int | None = None
    """Tokens of the prompt that were computed: ``prompt`` less ``reused``, if both are known."""
    truncated: bool | None = None
    """Whether the server reports that prompt, or prompt and answer, exceeded the context."""

    def __post_init__(self) -> None:
        """Drop parts that exceed the whole; compute ``evaluated``."""
        prompt, reused, evaluated = self.prompt, self.reused, None
        if prompt is not None:
            if reused is not None and reused > prompt:
                reused = None
                force_setattr(self, "reused", None)
            if self.written is not None and self.written + (reused or 0) > prompt:
                force_setattr(self, "written", None)
            if reused is not None:
                evaluated = prompt - reused
        force_setattr(self, "evaluated", evaluated)

    def merged(self, later: Usage) -> Usage:
        """Return these counts, replaced by those that ``later`` has."""
        if later is NOTHING or self is NOTHING:
            return self if later is NOTHING else later
        prompt = self.prompt if later.prompt is None else later.prompt
        if later.reused is None and self.reused is not None and self.prompt is not None:
            # A prompt's count without reused tokens, after one with them, may exclude these.
            prompt = max(self.prompt, later.prompt or 0)
        return Usage(
            prompt,
            self.reused if later.reused is None else later.reused,
            self.output if later.output is None else later.output,
            self.prompt_seconds if later.prompt_seconds is None else later.prompt_seconds,
            self.output_seconds if later.output_seconds is None else later.output_seconds,
            self.written if later.written is None else later.written,
            truncated=later.truncated or self.truncated,
        )


NOTHING = Usage()
"""The usage of a message that has no counts."""
_TRUNCATED = Usage(truncated=True)
_HOLDERS = frozenset({"message", "response"})
"""Members of an event that may have the usage, too."""


def usage_of(message: Any) -> Usage:
    """Return the usage in one JSON message of a response, in whichever dialect."""
    if not isinstance(message, dict):
        return NOTHING
    said: list[Usage] = []
    for holder in (message, *map(message.get, sorted(_HOLDERS & message.keys()))):
        if isinstance(holder, dict):
            usage = holder.get("usage")
            if isinstance(usage, dict):
                for is_other, read in _INSIDE:
                    if not is_other(usage):
                        said.append(read(usage))
                        break
            if "timings" in holder:
                said.append(_timings(holder["timings"]))
            if holder.get("truncated") is True:
                said.append(_TRUNCATED)
    for is_other, read in _ALONE:
        if not is_other(message):
            said.append(read(message))
    return said[0] if len(said) == 1 else reduce(Usage.merged, said, NOTHING)


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


def _reading(spelling: UsageSpelling) -> tuple[Callable[[_Json], bool], Callable[[_Json], Usage]]:
    """Return a function that tells whether a usage is in another spelling, and its reader."""
    counts = spelling.prompt, spelling.reused, spelling.written, spelling.output
    holders = {name.partition(".")[0] for names in counts for name in names if "." in name}

    def read(usage: _Json) -> Usage:
        for name in holders:
            inner = usage.get(name)
            if isinstance(inner, dict):
                usage = {**usage, **{f"{name}.{one}": value for one, value in inner.items()}}
        found: list[int | None] = []
        is_odd = False
        for names in counts:
            for value in map(usage.get, names):
                if type(value) is int and 0 <= value < _TOO_MUCH:
                    break
                is_odd = is_odd or (value is not None and len(found) < 3)
            else:
                value = None
            found.append(value)
        prompt, reused, written, output = found
        if spelling.is_rest:
            if prompt is None or is_odd:  # the sum of parts would lack one
                return Usage(output=output)
            prompt += (reused or 0) + (written or 0)
        if not spelling.seconds:
            return Usage(prompt, reused, output, None, None, written)
        seconds = [_seconds(usage.get(name), 1e9) for name in spelling.seconds]
        return Usage(prompt, reused, output, seconds[0], seconds[1], written)

    return frozenset(spelling.signs).isdisjoint, read


_INSIDE = [_reading(each) for each in USAGES if not each.hint]
_ALONE = [_reading(each) for each in USAGES if each.hint]


def summed(values: Iterable[Any]) -> Any:
    """Return the sum of ``values``; None if one of them is unknown."""
    known = list(values)
    return None if None in known else sum(known)
