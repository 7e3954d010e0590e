"""The exact text of tool-call arguments, as the model wrote them."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from typing import Any

from cacheproxy.translate.common.reading import LARGEST


class Spellings:
    """Remembers the arguments of tool calls by the call's id; forgets the least recently used.

    Anthropic clients keep a call's ``input`` as a value and spell it anew when they send it back:
    other spaces, other escapes, ``1`` for ``1.0``. A server that reads its own text again reuses
    the prompt; one that reads another does not.

    ``most``: entries; ``most_bytes``: of all their ids and texts, as UTF-8 at most 4 bytes a
    character. Safe to use from several threads.
    """

    def __init__(self, most: int = 4096, most_bytes: int = 8 << 20) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0
        self._texts: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._texts)

    def keep(self, call: str, text: str) -> None:
        """Remember that the call with the id ``call`` has the arguments ``text``, a JSON object."""
        with self._lock:
            self._forget(call)
            if _size(call, text) > self._most_bytes:
                return
            self._texts[call] = text
            self._bytes += _size(call, text)
            while len(self._texts) > self._most or self._bytes > self._most_bytes:
                self._forget(next(iter(self._texts)))

    def find(self, call: str, text: str, value: Any) -> str:
        """Return the arguments as the model wrote them, else ``text``.

        ``text``: how the client spells them; ``value``: what that means. Only a text that means
        the same is put in its place: a client may have changed the call.
        """
        with self._lock:
            kept = self._texts.get(call)
            if kept is None:
                return text
            self._texts.move_to_end(call)
        if kept == text:
            return text
        try:
            same = _alike(json.loads(kept), value)
        except (ValueError, RecursionError):
            return text
        return kept if same else text

    def _forget(self, call: str) -> None:
        text = self._texts.pop(call, None)
        if text is not None:
            self._bytes -= _size(call, text)


def _size(call: str, text: str) -> int:
    return sum(len(part.encode(errors="surrogatepass")) for part in (call, text))


def _alike(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal: numbers as doubles, objects in any order."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int) and isinstance(other, int) and min(abs(one), abs(other)) >= LARGEST:
        return _double(one) == _double(other)
    return bool(one == other)


def _double(number: int) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
