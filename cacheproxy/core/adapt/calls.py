"""Malformed calls and turns in a history, after a cut-off answer or a lost result, and repairs.

Arguments of a call that are no JSON object become a member of one. A result without its call
becomes a user's text; a call without a result gets one that states this; assistant messages in a
row become one. Each kind that a server refuses is remembered, so that later requests are healed
before they are sent, and earlier messages are the same in each turn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from cacheproxy.core.adapt.adaptation import Need, Refusal, Remembered
from cacheproxy.core.adapt.pairs import (
    HistoryItem,
    Repair,
    in_turns,
    is_answer,
    with_all_results,
    with_joined_answers,
    with_words,
    without_lone_results,
)
from cacheproxy.core.adapt.schemas import changes
from cacheproxy.core.dialects.content import NOT_JSON, calls_in
from cacheproxy.core.dialects.dialect import Dialect, Json
from cacheproxy.core.document.edits import REMOVE, Edit, encode
from cacheproxy.core.document.pointer import Path
from cacheproxy.core.prompt.request import Request, messages_of

THINKING: Final = "thinking"
"""Key of the fact that a server does not continue an answer while thinking is on."""
_KWARGS, _OFF = "chat_template_kwargs", "enable_thinking"
_NOT_THINKING = "thinking is off where the answer is begun"
_LOOKED_AT = 2_000
"""Characters at the end of an error: templates' messages follow a piece of their source."""
_PREFILL = re.compile(r"prefill.{0,40}thinking", re.IGNORECASE)
_UNREAD = object()


def _refuse(name: str) -> Any:
    """Raise ValueError for NaN and Infinity, which Python reads although they are no JSON."""
    raise ValueError(name)


_DECODER = json.JSONDecoder(parse_constant=_refuse)


class _Kind(NamedTuple):
    """One kind of fault."""

    name: str  #: key under which its refusal is remembered
    words: re.Pattern[str]  #: pattern of refusals that may be about it
    repair: Repair  #: function that removes it
    why: str  #: reason of the edit, for the log


def with_arguments(items: list[HistoryItem], dialect: Dialect) -> list[HistoryItem]:
    """Return ``items`` with arguments that are no JSON as a member of an object."""
    return _with_object_arguments(items, dialect, is_unread=True)


def with_objects(items: list[HistoryItem], dialect: Dialect) -> list[HistoryItem]:
    """Return ``items`` with arguments that are no object as a member of one."""
    return _with_object_arguments(items, dialect, is_unread=False)


def with_contents(items: list[HistoryItem], dialect: Dialect) -> list[HistoryItem]:
    """Return ``items`` with a content in each message, as a text if it was none."""
    found = []
    for item in items:
        value = item.value
        name = "output" if value.get("type") == "function_call_output" else "content"
        has_content = value.get("type", "message") == "message" and "role" in value
        given = value.get(name)
        if (has_content or name == "output") and not value.get("tool_calls"):
            if given is None or (given == [] and dialect.is_text):
                value = value | {name: ""}
            elif not isinstance(given, str | list):
                value = value | {name: encode(given)}
        found.append(item if value is item.value else HistoryItem(item.number, value))
    return found


def with_types(items: list[HistoryItem], dialect: Dialect) -> list[HistoryItem]:
    """Return ``items`` with a ``type`` in assistant messages, if other items stand among them."""
    return [
        HistoryItem(item.number, item.value | {"type": "message"})
        if dialect.is_text and "type" not in item.value and is_answer(item.value)
        else item
        for item in items
    ]


_ALTERNATE = r"\balternat"
_KINDS = tuple(
    _Kind(name, re.compile(words, re.IGNORECASE | re.DOTALL), repair, why)
    for name, words, repair, why in (
        (
            "arguments",
            r"argument|\bJSON|\bpars|expecting|unterminated|type of 'item'",
            with_arguments,
            "arguments that are no JSON, as text in an object",
        ),
        (
            "objects",
            r"argument|\bargs\b|\bitems\b|from_json|dictionary|mapping|object",
            with_objects,
            "arguments that are no object, in one",
        ),
        (
            "contents",
            r"\bcontents?\b|type of 'item'|field required",
            with_contents,
            "a message without the content that the server requires",
        ),
        ("types", r"type of 'item'", with_types, "a message that says that it is one"),
        (
            "results",
            r"tool[ _](?:role|call|use|result|message|output)|function[ _]call|\btool\b",
            without_lone_results,
            "the result of a tool whose call is not shown, as the user's",
        ),
        (
            "calls",
            r"tool[ _](?:role|call|use|result|message|output)|function[ _]call|" + _ALTERNATE,
            with_all_results,
            "a result for a call that has none",
        ),
        (
            "answers",
            r"assistant messages? at the end|consecutive|" + _ALTERNATE,
            with_joined_answers,
            "the model's messages in a row, joined",
        ),
        (
            "words",
            r"empty|blank|at least|must contain|" + _ALTERNATE,
            with_words,
            "a message that says nothing, marked as empty",
        ),
        ("turns", _ALTERNATE, in_turns, "an answer before a message behind a tool's result"),
    )
)


class Calls:
    """The adaptation of malformed calls and turns."""

    name = "malformed-calls"

    def needed(self, request: Request, remembered: Remembered) -> Need | None:
        """Return the remembered kinds of faults that ``request`` has, None for none."""
        if not remembered:
            return None
        facts: dict[Any, Any] = {name: True for name, _ in _steps(request, remembered)}
        if THINKING in remembered and _ends_with_answer(request):
            facts[THINKING] = True
        return Need(facts) if facts else None

    def refused(self, refusal: Refusal, request: Request, need: Need | None) -> Need | None:
        """Return the need with one more kind of fault: the first that fits refusal and request."""
        facts = dict(need.facts) if need is not None else {}
        words = refusal.words[-_LOOKED_AT:]
        if THINKING not in facts and _PREFILL.search(words) and _ends_with_answer(request):
            return Need(facts | {THINKING: True})
        for kind in _KINDS:
            if kind.name not in facts and kind.words.search(words):
                tried = facts | {kind.name: True}
                if any(name == kind.name for name, _ in _steps(request, tried)):
                    return Need(tried)
        return None

    def edits(self, request: Request, need: Need) -> Sequence[Edit]:
        """Return the edits of messages, and of thinking where the server wants it off."""
        root, came = messages_of(request)
        steps = list(_steps(request, need.facts))
        why = "; ".join(kind.why for kind in _KINDS if any(kind.name == name for name, _ in steps))
        found = list(_edits(root, came, steps[-1][1], why)) if steps else []
        if THINKING in need.facts:
            body = request.json or {}
            kwargs = body.get(_KWARGS)
            off = {**(kwargs if isinstance(kwargs, dict) else {}), _OFF: False}
            found.append(Edit(f"/{_KWARGS}", off, _NOT_THINKING, adds=_KWARGS not in body))
        return found


def _steps(request: Request, facts: Remembered) -> Iterator[tuple[str, list[HistoryItem]]]:
    """Yield the messages after each repair that ``facts`` name and that changes any."""
    dialect = request.dialect
    _, came = messages_of(request)
    if dialect is None or not came:
        return
    items = [HistoryItem(number, value) for number, value in enumerate(came)]
    for kind in _KINDS:
        if kind.name in facts:
            new = kind.repair(items, dialect)
            if len(new) != len(items) or any(
                one.value is not other.value for one, other in zip(new, items, strict=True)
            ):
                items = new
                yield kind.name, items


def _edits(
    root: str, came: Sequence[Json], items: Sequence[HistoryItem], why: str
) -> Iterator[Edit]:
    """Yield the edits that turn ``came`` into ``items``."""
    kept = {item.number for item in items}
    for number in range(len(came)):
        if number not in kept:
            yield Edit(f"/{root}/{number}", REMOVE, why)
    for at, item in enumerate(items):
        if item.number is not None:
            yield from changes(came[item.number], item.value, (root, item.number), why)
            continue
        following = (one.number for one in items[at:] if one.number is not None)
        yield Edit(f"/{root}/{next(following, '-')}", item.value, why, adds=True)


def _with_object_arguments(
    items: list[HistoryItem], dialect: Dialect, *, is_unread: bool
) -> list[HistoryItem]:
    """Return ``items`` with arguments as objects; ``is_unread``: only such as are no JSON."""
    found = []
    for item in items:
        value = item.value
        for call in calls_in(item.value):
            is_value = call.path[-1] == "input" or bool(dialect.options)
            given = call.arguments
            if isinstance(given, dict):
                continue
            read = _read(given)
            if is_unread and (read is not _UNREAD or is_value):
                continue
            if isinstance(read, dict):
                if not is_value:
                    continue
                new = read
            elif read is None or given in (None, ""):
                new = {}
            else:
                new = {NOT_JSON: given}
            value = _put(value, call.path, new if is_value else encode(new))
        found.append(item if value is item.value else HistoryItem(item.number, value))
    return found


def _read(given: Any) -> Any:
    """Return the value of arguments, _UNREAD if they are missing or a text that is no JSON."""
    if not isinstance(given, str):
        return _UNREAD if given is None else given
    try:
        return _DECODER.decode(given)
    except (ValueError, RecursionError):
        return _UNREAD


def _put(value: Any, path: Path, new: Any) -> Any:
    """Return a copy of ``value`` with ``new`` at ``path``, in place of any value there."""
    if not path:
        return new
    step: Any = path[0]
    made = value.copy()
    made[step] = _put(made[step] if len(path) > 1 else None, path[1:], new)
    return made


def _ends_with_answer(request: Request) -> bool:
    _, items = messages_of(request)
    return bool(items) and is_answer(items[-1])
