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


def usage_of(message: Any) -> Usage:
    """Return what one JSON message of a response, in whichever dialect, says of usage."""
    if not isinstance(message, dict):
        return NOTHING
    found = NOTHING
    for holder in (message, message.get("message"), message.get("response")):
        if isinstance(holder, dict):
            if "usage" in holder:
                found = found.merged(_openai_or_anthropic(holder["usage"]))
            if "timings" in holder:
                found = found.merged(_timings(holder["timings"]))
    if "prompt_eval_duration" in message or "prompt_eval_count" in message:
        found = found.merged(_ollama(message))
    if "tokens_evaluated" in message:
        found = found.merged(_completion(message))
    return found


def _openai_or_anthropic(usage: Any) -> Usage:
    if not isinstance(usage, dict):
        return NOTHING
    if "prompt_tokens" in usage:
        return _chat(usage)
    output = _count(usage.get("output_tokens"))
    fresh = _count(usage.get("input_tokens"))
    if "input_tokens_details" in usage or "total_tokens" in usage:
        details = usage.get("input_tokens_details")
        return Usage(fresh, _cached(details), output, written=_created(details))
    parts = [usage.get("cache_read_input_tokens"), usage.get("cache_creation_input_tokens")]
    reused, written = map(_count, parts)
    is_odd = any(said is not None and _count(said) is None for said in parts)
    if fresh is None or is_odd:  # the whole is the sum of its parts
        return Usage(output=output)
    return Usage(
        prompt=fresh + (reused or 0) + (written or 0),
        reused=reused,
        output=output,
        written=written,
    )


def _chat(usage: dict[str, Any]) -> Usage:
    """Return the counts of Chat Completions; DeepSeek's, and Kimi's, stand beside its own."""
    details = usage.get("prompt_tokens_details")
    places = (_cached(details), usage.get("prompt_cache_hit_tokens"), usage.get("cached_tokens"))
    counts = (_count(place) for place in places)
    return Usage(
        prompt=_count(usage["prompt_tokens"]),
        reused=next((count for count in counts if count is not None), None),
        output=_count(usage.get("completion_tokens")),
        written=_created(details),
    )


def _cached(details: Any) -> int | None:
    return _count(details.get("cached_tokens")) if isinstance(details, dict) else None


def _created(details: Any) -> int | None:
    """Return what was written to the cache: vLLM's word for it, or OpenRouter's."""
    if not isinstance(details, dict):
        return None
    created = _count(details.get("created_cache_tokens"))
    return _count(details.get("cache_write_tokens")) if created is None else created


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


def _ollama(message: dict[str, Any]) -> Usage:
    """Ollama's last message. Before 0.33.3 it does not say what it reused.

    ``prompt_eval_count`` includes the cached tokens, ``prompt_eval_duration`` does not.
    """
    return Usage(
        prompt=_count(message.get("prompt_eval_count")),
        reused=_count(message.get("prompt_eval_cached_count")),
        output=_count(message.get("eval_count")),
        prompt_seconds=_seconds(message.get("prompt_eval_duration"), 1e9),
        output_seconds=_seconds(message.get("eval_duration"), 1e9),
    )


def _completion(message: dict[str, Any]) -> Usage:
    """llama-server's native ``/completion``.

    ``tokens_evaluated`` is the whole prompt, ``tokens_cached`` what the slot holds afterwards,
    prompt and answer (server-context.cpp: ``n_tokens_cached = slot.prompt.n_tokens()``): what
    was reused stands in ``timings`` alone.
    """
    return Usage(
        prompt=_count(message["tokens_evaluated"]),
        output=_count(message.get("tokens_predicted")),
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
