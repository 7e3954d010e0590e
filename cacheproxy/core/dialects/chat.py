"""OpenAI's Chat Completions API, and llama-server's ``/apply-template``.

Sources: OpenAI's API reference; DeepSeek's and Kimi's for usage, vLLM's ``PromptTokenUsageInfo``.
"""

from __future__ import annotations

from typing import Any

from cacheproxy.core.dialects.content import calls_in, texts_in
from cacheproxy.core.dialects.dialect import Dialect, EndMarks, Endpoint, Purpose, UsageSpelling
from cacheproxy.core.dialects.reasoning import REASONING, ReadAnswer, Reasoning
from cacheproxy.core.document.document import Document, Splice
from cacheproxy.core.document.edits import Edit, Raw, splices_of

_Json = dict[str, Any]


def has_finished(message: _Json) -> bool:
    """Whether a choice in ``message`` says why it has ended."""
    choices = message.get("choices")
    return isinstance(choices, list) and any(
        isinstance(choice, dict) and choice.get("finish_reason") for choice in choices
    )


def _read(answer: ReadAnswer, whole: _Json) -> None:
    message = _choice(whole).get("message")
    if isinstance(message, dict):
        _take(answer, message)
        answer.calls += ((call.name, call.arguments) for call in calls_in(message))


def _read_event(answer: ReadAnswer, event: _Json) -> None:
    delta = _choice(event).get("delta")
    if not isinstance(delta, dict):
        return
    _take(answer, delta)
    calls = delta.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            answer.called(call.get("index"), function.get("name"), function.get("arguments"))


def _choice(value: _Json) -> _Json:
    """Return the one choice of a completion or chunk; {} where it has none."""
    choices = value.get("choices")
    found = [one for one in choices if isinstance(one, dict)] if isinstance(choices, list) else []
    if len(found) > 1 or any(one.get("index") not in (None, 0) for one in found):
        raise ValueError("there are several answers")
    return found[0] if found else {}


def _take(answer: ReadAnswer, message: _Json) -> None:
    """Take the text and the reasoning of a message or delta; some servers give it twice."""
    answer.text += texts_in(message.get("content"))
    for name in REASONING:
        piece = message.get(name)
        if isinstance(piece, str) and piece and answer.name in ("", name):
            answer.name = name
            answer.reasoning.append(piece)
            return


def _put(
    document: Document, number: int, name: str, spelled: str, why: str
) -> tuple[Edit, list[Splice]]:
    """Put reasoning behind a message's other members."""
    name = name or REASONING[0]
    pointer = f"/messages/{number}/{name}"
    entry = document.entry(("messages", number))
    if name in entry.value:  # null or empty
        edit = Edit(pointer, Raw(spelled), why)
        return edit, splices_of(document, [edit])
    # Not through splices_of: that reads the members of each message, of which there are hundreds.
    at = entry.end - 1
    new = f',"{name}":{spelled}'.encode()
    return Edit(pointer, Raw(spelled), why, adds=True), [Splice(at, at, new)]


CHAT = Dialect(
    name="openai-chat",
    path="/v1/chat/completions",
    endpoints=(
        Endpoint("/chat/completions", Purpose.CHAT),
        Endpoint("/apply-template", Purpose.RENDER),
        Endpoint("/embeddings", Purpose.EMBEDDINGS),
    ),
    as_chat=lambda body: body,
    is_rendered=True,
    usage=(
        UsageSpelling(
            signs=("prompt_tokens",),
            prompt=("prompt_tokens",),
            output=("completion_tokens",),
            # DeepSeek's, and Kimi's, stand beside its own.
            reused=(
                "prompt_tokens_details.cached_tokens",
                "prompt_cache_hit_tokens",
                "cached_tokens",
            ),
            # vLLM's word for it, or OpenRouter's.
            written=(
                "prompt_tokens_details.created_cache_tokens",
                "prompt_tokens_details.cache_write_tokens",
            ),
        ),
    ),
    end=EndMarks(has_finished, done=b"[DONE]", keys=((b'"finish_reason"', b"null"),)),
    reasoning=Reasoning(_read, _read_event, _put),
)
"""``/v1/chat/completions``, ``/apply-template``."""
