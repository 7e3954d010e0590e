"""Refused fields: members of a request that a strict server's error forbids are left out.

A member leaves only if the client can still read the answer. Text of a user or a tool never
leaves, nor a member that sets the answer's form, nor one that stands for an absent history.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from cacheproxy.core.adapt.adaptation import Need, Refusal, Remembered
from cacheproxy.core.document.document import Document
from cacheproxy.core.document.edits import REMOVE, Edit
from cacheproxy.core.document.pointer import match_paths, to_pointer
from cacheproxy.core.prompt.request import Request, messages_of

_STATUSES = frozenset({400, 422, 500})
_STAYS = frozenset(
    {
        *("messages", "input", "tools", "model", "stream", "system", "instructions", "prompt"),
        *("content", "role", "type", "text", "id", "call_id", "tool_call_id", "tool_use_id"),
        *("name", "function", "arguments", "tool_calls", "output", "images", "source", "thinking"),
        *("tool_choice", "functions", "function_call", "response_format", "format", "suffix"),
        *("grammar", "json_schema", "guided_json", "structured_outputs", "output_format"),
        *("stop", "stop_sequences", "max_tokens", "max_output_tokens", "num_predict", "options"),
    }
)
"""Names of members that are never left out, wherever they stand."""
_TOP = frozenset({"thinking"})
"""Names of _STAYS that may leave at the top of the request: there they switch on reasoning."""
_SCHEMAS = frozenset({"parameters", "input_schema", "input", "arguments"})
"""Members whose content is a tool's, not the API's."""
_PLAIN = re.compile(r"[A-Za-z_]\w*|\*")
_HISTORIES = frozenset({"previous_response_id", "conversation"})
"""Members that stand for earlier messages on the server."""
_SIGNATURE = "signature"
_RENAMED = {"max_completion_tokens": "max_tokens"}
"""Members that older servers know by another name."""
_LONGEST = 100
_NAME = rf"\b([A-Za-z_][A-Za-z0-9_.]{{0,{_LONGEST}}})\b['\"`]?"
# llama.cpp's ("Field 'n': …", "logprobs is not supported with tools + stream", "does not support
# 'previous_response_id'", "top_logprobs requires logprobs to be set"), OpenAI's ("Unknown
# parameter: 'x'", "Unrecognized request argument supplied: x"), Groq's ("property 'x' is
# unsupported"), Go's (`unknown field "x"`), serde's ("unknown field `x`"), JSON Schema's
# ("('x' was unexpected)"), Python's ("unexpected keyword argument 'x'").
_WORDS = (
    re.compile(
        r"\b(?:field|property|parameter|argument|option)\b[^'\"`.:\n]{0,30}(?::\s?['\"`]?|['\"`])"
        rf"{_NAME}",
        re.IGNORECASE,
    ),
    re.compile(rf"\bnot support(?:ed)?\b[^'\"`.\n]{{0,20}}['\"`]{_NAME}", re.IGNORECASE),
    re.compile(
        rf"{_NAME} (?:(?:is|are|was|were) (?:not (?:yet )?(?:supported|permitted|allowed)"
        r"|unsupported|unexpected|unknown|unrecognized)|does not support|requires [a-z_]+ to be)\b",
        re.IGNORECASE,
    ),
)
_LOCATED = re.compile(
    r"\bextra (?:inputs|fields)\b|\bnot permitted\b|\bextra_forbidden\b|\bInput should be\b"
    r"|\bunexpected keyword\b|\bnot supported\b",
    re.IGNORECASE,
)
"""Messages about a member that the error locates (Pydantic's ``loc``)."""
_LOC = re.compile(r"'loc': \(([^()\n]{1,200})\)")
"""Pydantic's ``loc`` inside vLLM's message, as Python prints it."""
_DOTTED = re.compile(r"\b([A-Za-z_][\w.]{0,200}): (?:Extra inputs|Field required|Input should)")
"""Anthropic's spelling of it: ``tools.0.custom.strict: Extra inputs are not permitted``."""
_EFFORT = "reasoning_effort"
_EFFORTS = (
    "/reasoning_effort",
    "/think",
    "/thinking",
    "/output_config/effort",
    "/reasoning/effort",
)
"""Members that set reasoning, in any API: a translated request has another API's."""
_THINKS = re.compile(
    r"\bdoes not support (?:thinking|reasoning)\b|\binvalid reasoning value\b", re.IGNORECASE
)
"""Ollama's messages for a model that does not reason, and for an unknown effort."""
_UNSIGNED = re.compile(
    r"\bsignature\b[^.\n]{0,60}\b(?:required|missing)|missing[^.\n]{0,20}signature"
)
_MISSING = re.compile(r"\bField required\b|\bmissing\b", re.IGNORECASE)
_WHY = "member that the server refuses left out"
_EMPTY = "empty signature of the model's reasoning"


class RefusedFields:
    """The adaptation that leaves out members which the server refuses."""

    name = "refused-fields"

    def needed(self, request: Request, remembered: Remembered) -> Need | None:
        """Return the remembered members that ``request`` has, None for none."""
        document = request.document
        if not remembered or document is None:
            return None
        facts: dict[Any, Any] = {
            key: value
            for key, value in remembered.items()
            if _first(document, str(key)) is not None and not _holds_history(request, str(key))
        }
        return Need(facts) if facts else None

    def refused(self, refusal: Refusal, request: Request, need: Need | None) -> Need | None:
        """Return ``need`` with one more member, the first that ``refusal`` may mean, or None."""
        document, known = request.document, {} if need is None else dict(need.facts)
        if document is None or refusal.status not in _STATUSES:
            return None
        for pattern in _named(refusal, document):
            if pattern not in known and not _holds_history(request, pattern):
                return Need({**known, pattern: True})
        return None

    def edits(self, request: Request, need: Need) -> Sequence[Edit]:
        """Return the edits that remove the members wherever they stand."""
        document = request.document
        if document is None:
            return []
        found: dict[str, Edit] = {}
        patterns = [str(key) for key in need.facts]
        for pattern in patterns:
            if any(pattern.startswith(f"{other}/") for other in patterns):
                continue  # it goes with what it stands in
            for edit in _edits(document, pattern):
                found.setdefault(edit.path, edit)
        return list(found.values())


def _named(refusal: Refusal, document: Document) -> Iterator[str]:
    """Yield the members that the error may mean, as patterns of paths in the document."""
    words, place = refusal.words, refusal.path or _place_in(refusal.words)
    where = _pattern_of(place, document)
    signs = _UNSIGNED.search(words) or (place[-1:] == (_SIGNATURE,) and _MISSING.search(words))
    if signs and _first(document, _THINKING) is not None:
        yield _THINKING
    elif _THINKS.search(words) or (place == (_EFFORT,) and _EFFORT not in document.value):
        yield from (pattern for pattern in _EFFORTS if _first(document, pattern) is not None)
    elif where and _LOCATED.search(words):
        yield where
    elif not place:
        for pattern in _WORDS:
            for found in pattern.finditer(words):
                if named := _pattern_of(tuple(found[1].split(".")), document):
                    yield named


def _place_in(words: str) -> tuple[str | int, ...]:
    """Return the path of the fault that the error's message contains, () if it contains none."""
    found, dotted = _LOC.search(words), _DOTTED.search(words)
    if found is not None:
        steps = [step.strip(" '\"") for step in found[1].split(",")]
    else:
        steps = [] if dotted is None else dotted[1].split(".")
    numbered = [int(step) if step.isdecimal() and len(step) < 9 else step for step in steps if step]
    return tuple(numbered[1:] if numbered[:1] == ["body"] else numbered)


_THINKING = "/messages/*/content/*[type=thinking]"
"""Path of unsigned reasoning."""


def _pattern_of(path: Sequence[str | int], document: Document) -> str:
    """Return the pattern of the member at ``path``; "" if it is absent or must stay.

    Indexes become ``*``: a server that refuses it in one message refuses it in all. Steps that
    lead nowhere are skipped: they are Pydantic's names of the types that it tried.
    """
    value: Any = document.value
    steps: list[str] = []
    name = path[-1] if path else ""
    for step in path:
        if isinstance(value, dict) and step in value:
            value = value[step]
            steps.append(str(step))
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
            steps.append("*")
    if not steps or steps[-1] != name or not all(map(_PLAIN.fullmatch, steps)):
        return ""
    if _SCHEMAS.intersection(steps[1:-1]):
        return ""
    if name in _STAYS and not (len(steps) == 1 and name in _TOP):
        return ""
    return "".join(f"/{step}" for step in steps)


def _holds_history(request: Request, pattern: str) -> bool:
    """Whether the member at ``pattern`` stands for messages that ``request`` does not contain."""
    name = pattern[1:]
    if name not in _HISTORIES or (request.json or {}).get(name) is None:
        return False
    return not any(
        item.get("role") == "assistant" or item.get("type") == "function_call"
        for item in messages_of(request)[1]
    )


def _first(document: Document, pattern: str) -> Any:
    """Return the first path that ``pattern`` matches, None for none."""
    return next((path for path, _ in _matches(document, pattern)), None)


def _matches(document: Document, pattern: str) -> Iterator[tuple[Any, Any]]:
    """Yield path and value of what ``pattern`` matches; of reasoning, only unsigned."""
    for path, value in match_paths(document.value, pattern):
        if pattern != _THINKING or (isinstance(value, dict) and _SIGNATURE not in value):
            yield path, value


def _edits(document: Document, pattern: str) -> Iterator[Edit]:
    for path, value in _matches(document, pattern):
        pointer = to_pointer(path)
        if pattern == _THINKING:
            yield Edit(f"{pointer}/{_SIGNATURE}", "", _EMPTY, adds=True)
            continue
        yield Edit(pointer, REMOVE, _WHY)
        known = _RENAMED.get(pattern[1:])
        if known is not None and known not in document.value:
            yield Edit(f"/{known}", value, _WHY, adds=True)
