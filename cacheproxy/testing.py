"""Helpers for the tests of client packages: build, load, normalize and compare requests.

They need nothing but cacheproxy. They raise AssertionError, so any test runner will do.
"""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cacheproxy.core.dialects.dialects import DIALECTS, LISTS, spoken
from cacheproxy.core.document.compare import common_prefix
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.code_rule import Normalizer, settled
from cacheproxy.core.rules.fold import normalize
from cacheproxy.record.jsonl import from_line

APIS = tuple(each.path for each in DIALECTS if each.path.startswith("/v1/") and each.items)
"""Paths of the APIs for which ``conversation`` makes requests."""
CAPTURES = "tests/captures"
"""Folder of a project's captures, relative to the parent of its tests' folder."""

_PACKED: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
_TEXT_TYPES = ("text", "input_text", "output_text")
_SHOWN = 60


def request(
    body: dict[str, Any] | str | bytes,
    path: str = APIS[0],
    headers: Mapping[str, str] | None = None,
) -> Request:
    """Return a POST request; a dict as ``body`` becomes JSON, text and bytes stay as they are."""
    if isinstance(body, dict):
        body = json.dumps(body)
    if isinstance(body, str):
        body = body.encode()
    pairs = (headers or {}).items()
    as_sent = ((key.encode("latin-1"), value.encode("latin-1")) for key, value in pairs)
    return Request("POST", path, tuple(as_sent), body)


def from_another(request: Request) -> Request:
    """Return ``request`` as if its user agent named another installed client."""
    return replace(request, speaker="another")


def conversation(
    path: str, system: str, *said: Any, headers: Mapping[str, str] | None = None
) -> Request:
    """Return a request to ``path`` (one of APIS) with a system text and the messages ``said``.

    The messages are the user's and the model's in turn, each a text or the content of a message.
    """
    messages = [
        {"role": ("user", "assistant")[number % 2], "content": content}
        for number, content in enumerate(said)
    ]
    return request(spoken(path).body([system], messages), path, headers)


def load_capture(path: str | Path) -> list[Request]:
    """Return the requests of a capture: JSON lines of method, path, headers and body (text).

    The file is one that ``cacheproxy serve --capture`` wrote, or was made by hand. It is compressed
    if its name ends in ``.xz`` or ``.gz``.
    """
    unpacked = _PACKED.get(Path(path).suffix, open)
    with unpacked(path, "rb") as lines:
        return [from_line(line).received for line in lines if line.strip()]


def find_captures(pattern: str, near: str | Path) -> list[Path]:
    """Return the captures that match ``pattern``, sorted by name, compressed ones as well.

    They are the files in the nearest folder ``tests/captures`` at or above ``near`` (a test's
    ``__file__``). ``claude*.jsonl`` matches ``claude-resume.jsonl.xz``, too. It is a failure if
    none matches: a test without its captures would pass without checking anything.
    """
    folders = [parent / CAPTURES for parent in Path(near).resolve().parents]
    folder = next((folder for folder in folders if folder.is_dir()), None)
    assert folder is not None, f"there is no folder {CAPTURES} at or above {near}"
    endings = ("", *_PACKED)
    found = sorted({file for ending in endings for file in folder.glob(pattern + ending)})
    assert found, f"no capture in {folder} matches {pattern}"
    return found


def capture_name(path: str | Path) -> str:
    """Return a capture's name: ``claude-resume`` for ``claude-resume.jsonl.xz``."""
    return Path(path).name.partition(".jsonl")[0]


def rules_of(plugin: Any) -> list[Normalizer]:
    """Return the rules of ``plugin``, a module with CLIENT and RULES, bound to its client."""
    return [settled(rule, plugin.CLIENT) for rule in plugin.RULES]


def rule_named(rules: Iterable[Normalizer], name: str) -> Normalizer:
    """Return the rule called ``name``; fails if there is none."""
    known = {rule.name: rule for rule in rules}
    assert name in known, f"no rule is called {name}; the rules are: {', '.join(sorted(known))}"
    return known[name]


def normalized(
    rules: Sequence[Normalizer], request: Request, previous: Request | None = None
) -> Request:
    """Return ``request`` after all ``rules``, whether they are on by default or not.

    Fails, naming the rule, if a rule fails: the proxy would leave it out.
    """
    result = normalize(request, rules, previous)
    for report in result.reports:
        assert report.error is None, f"rule {report.rule}: {report.error}"
    return result.request


def assert_untouched(
    rules: Sequence[Normalizer], request: Request, previous: Request | None = None
) -> None:
    """Fail unless ``rules`` leave the body unchanged, byte for byte, and none of them fails."""
    after = normalized(rules, request, previous)
    _assert_same(_body_text(request), _body_text(after), "the body was edited")
    assert request.body == after.body


def assert_idempotent(
    rules: Sequence[Normalizer], request: Request, previous: Request | None = None
) -> None:
    """Fail unless normalizing a second time changes nothing (law 3)."""
    once = normalized(rules, request, previous)
    twice = normalized(rules, once, previous)
    _assert_same(_body_text(once), _body_text(twice), "the second pass edited the body again")
    assert once.body == twice.body


def assert_told_once(
    rules: Sequence[Normalizer],
    first: Callable[..., Request],
    later: Callable[..., Request],
    note: str,
) -> None:
    """Fail unless a pin's first value stays, and a note reports the new one once (law 11).

    ``first`` and ``later`` return a conversation with the given messages, with the old value and
    the new one. ``note``: the expected text, behind the message with which the value changed.
    """
    said = ("hi", "ho", "next", "so", "and")
    told = (*said[:2], f"next\n\n<system-reminder>\n{note}\n</system-reminder>", *said[3:])
    previous = first(*said[:1])
    assert_untouched(rules, previous)
    for count in (3, 5):
        turn = later(*said[:count])
        assert parted([previous, turn]), "without the rule, the new value changes nothing"
        assert_idempotent(rules, turn, previous)
        sent = normalized(rules, turn, previous)
        _assert_alike(first(*told[:count]).json, sent.json, "what is sent")
        assert_extends(previous, sent)
        previous = sent


def parted(turns: Iterable[Request], rules: Sequence[Normalizer] = ()) -> dict[int, str]:
    """Return the numbers, from 0, of turns that do not extend the previous one, with the reasons.

    Each turn is normalized, with the normalized previous one. Fails if a second pass edits it.
    """
    found: dict[int, str] = {}
    previous = None
    for number, turn in enumerate(turns):
        assert_idempotent(rules, turn, previous)
        sent = normalized(rules, turn, previous)
        try:
            if previous is not None:
                assert_extends(previous, sent)
        except AssertionError as error:
            found[number] = str(error)
        previous = sent
    return found


def assert_extends(earlier: Request, later: Request, rules: Sequence[Normalizer] = ()) -> None:
    """Fail unless the prompt of ``later``, normalized, starts with that of ``earlier``.

    Tools and system must be equal, and the first messages of ``later`` those of ``earlier``.
    ``cache_control`` is ignored, and a text equals a list with that text as its only block: chat
    templates render these alike. The order of keys counts only where templates render it: in tool
    definitions and in the input of a tool call.
    """
    earlier = normalized(rules, earlier)
    later = normalized(rules, later, earlier)
    assert earlier.json is not None, f"the earlier body: {earlier.not_understood}"
    assert later.json is not None, f"the later body: {later.not_understood}"
    heads = sorted({each.head for each in DIALECTS if each.head})
    for name in ("tools", "functions", *heads):
        is_text = name in heads
        before, after = earlier.json.get(name), later.json.get(name)
        _assert_alike(
            _blocks(before) if is_text else _plain(before),
            _blocks(after) if is_text else _plain(after),
            name,
        )
    for name in sorted(LISTS):
        before, after = _messages(earlier.json.get(name)), _messages(later.json.get(name))
        assert len(before) <= len(after), f"{name}: {len(before)} became {len(after)}"
        for index, (old, new) in enumerate(zip(before, after, strict=False)):
            _assert_alike(old, new, f"{name}/{index}")


def _body_text(request: Request) -> str:
    return request.body.decode(errors="replace")


def _messages(value: Any) -> list[Any]:
    """Return the messages in the form that is compared: a text is one, of the user; else []."""
    if isinstance(value, str):
        value = [{"role": "user", "content": value}]
    return [_message(item) for item in value] if isinstance(value, list) else []


def _message(value: Any) -> Any:
    """Return a message or block in the form that is compared: keys sorted, no ``cache_control``."""
    if not isinstance(value, dict):
        return value
    return {
        key: _blocks(value[key]) if key == "content" else _plain(value[key])
        for key in sorted(value)
        if key != "cache_control"
    }


def _blocks(content: Any) -> Any:
    """Return a message's content in the form that is compared: a text as a list of one block."""
    if isinstance(content, str):
        return [{"text": content, "type": "text"}]
    if not isinstance(content, list):
        return _plain(content)
    blocks = [_message(block) for block in content]
    return [
        {**block, "type": "text"}
        if isinstance(block, dict) and block.get("type") in _TEXT_TYPES
        else block
        for block in blocks
    ]


def _plain(value: Any) -> Any:
    """Return ``value`` without ``cache_control``, at any depth."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items() if key != "cache_control"}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def _assert_alike(before: Any, after: Any, name: str) -> None:
    """Fail unless two JSON values are equal, the order of their keys, too."""
    if before != after or json.dumps(before) != json.dumps(after):
        _assert_same(json.dumps(before), json.dumps(after), f"{name} differs")


def _assert_same(before: str, after: str, complaint: str) -> None:
    """Fail with ``complaint`` and the first difference, unless the texts are equal."""
    if before == after:
        return
    shared = common_prefix(before, after)
    start = max(0, shared - 20)
    shown = f"{before[start : shared + _SHOWN]!r} became {after[start : shared + _SHOWN]!r}"
    raise AssertionError(f"{complaint}, at {shared}: {shown}")
