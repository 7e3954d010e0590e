"""The upstream's reason for refusing a request, as one line that is safe to log.

Only the message is taken, from any of these shapes of the body: OpenAI's and Anthropic's
``error.message``, Ollama's ``error``, FastAPI's ``detail``, or plain text. Servers repeat what
they could not read (pydantic's ``input``, a JSON parser's "last read"). So no text of the request
is quoted: a quoted part becomes ``…``, and a message that shares a longer run of text with the
request is not shown at all. ``read`` returns the whole message for adaptations.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cacheproxy.core.adapt.adaptation import Refusal
from cacheproxy.core.document.reader import parsed
from cacheproxy.core.http1.content_coding import decoded
from cacheproxy.core.privacy.credentials import hide_text
from cacheproxy.core.privacy.redact import carried
from cacheproxy.core.prompt.request import Headers, Request

WITHHELD = "(not shown: it repeats the request)"
"""Text in place of a message that must not be logged."""
_MOST_READ = 8 << 10
"""Bytes of a message that are read, at most."""
_LOOKED_AT = 400
"""Characters of a message from which the line is made."""
_LONGEST = 160
_DEEPEST, _MOST_DETAILS = 4, 64
_RUN, _STEP = 32, 8
"""Every run of text of 39 characters that stands in the request is found, none shorter than 32."""
_LARGEST = 8 << 20
"""Bytes of a request beyond which looking for such runs would keep everybody waiting."""
_MESSAGE = re.compile(r'"(?:message|detail|error|msg)"\s*:\s*("(?:[^"\\]|\\.)*")')
_ECHO = re.compile(r"""(?<![,\s])[,\s]*(?:['"]input['"]\s*:|\binput_value=).*""", re.DOTALL)
_QUOTED = re.compile(r"""(['"`])((?:(?!\1).)+)(\1|\Z)""", re.DOTALL)
_OF_THE_API = re.compile(r"[a-z_.]{1,24}")
"""Names of fields and roles: they are quoted although requests have them, too."""
_RAISED = "Jinja Exception: "
"""Text between the template that llama-server quotes and the template's own message."""
STATUSES = frozenset({400, 404, 413, 422, 500})
"""Statuses of refusals. If a template raises, llama-server and vLLM answer 400, mlx-lm 404, others
500."""
LARGEST = 64 << 10
"""Bytes of an error answer that are read, at most."""


def read(status: int, body: bytes) -> Refusal:
    """Return the refusal in an error answer with ``status`` and ``body``, in any known shape."""
    text = body[:LARGEST].decode("utf-8", "replace")
    value = parsed(text.strip(), strict=False)
    words = "\n".join(_messages(value, every=True)) or text
    if len(words) > _MOST_READ:  # llama-server: the template, and behind it what it has to say
        words = f"{words[: _MOST_READ // 2]}\n{words[-_MOST_READ // 2 :]}"
    return Refusal(status, words, _code(value), next(_paths(value), ()))


def _code(value: Any) -> str:
    """Return an error's ``type``, else ``code``, in lower case; "" for neither."""
    error = value.get("error", value) if isinstance(value, dict) else None
    found = (error.get(name) for name in ("type", "code")) if isinstance(error, dict) else ()
    return next((one.lower() for one in found if isinstance(one, str) and one), "")


def _paths(value: Any, depth: int = 0) -> Iterator[tuple[str | int, ...]]:
    """Yield the paths of members that pydantic names (``loc``) in FastAPI's answers."""
    if depth == _DEEPEST:
        return
    if isinstance(value, dict):
        where = value.get("loc")
        if isinstance(where, list) and all(type(step) in (str, int) for step in where):
            yield tuple(where[1:] if where[:1] == ["body"] else where)
        for name in ("error", "detail"):
            yield from _paths(value.get(name), depth + 1)
    elif isinstance(value, list):
        for one in value[:_MOST_DETAILS]:
            yield from _paths(one, depth + 1)


class ErrorReader:
    """The reader of an error's body, which passes it in pieces; only the first bytes are stored.

    ``headers``: the response's. ``keys``: credentials of ours that the error may repeat.
    """

    is_cut = False
    """Always False: the end of an error's body is not recognised."""

    def __init__(self, headers: Headers, keys: frozenset[bytes] = frozenset()) -> None:
        self._headers = headers
        self._keys = keys
        self._body = bytearray()

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the body."""
        if len(self._body) < _MOST_READ:
            self._body += data[: _MOST_READ - len(self._body)]

    def said(self, *requests: Request) -> str | None:
        """Return the message without text of ``requests``, or WITHHELD; None if there is none.

        ``requests``: the request as it came, and as it went upstream.
        """
        body = decoded(bytes(self._body), self._headers)[:_MOST_READ]
        raw = _message_in(body.decode("utf-8", "replace"))
        return None if raw is None else _fit_to_show(raw, requests, self._keys)


def words(
    value: Mapping[str, Any], requests: Sequence[Request], keys: frozenset[bytes]
) -> str | None:
    """Return the message of an error inside an answer (``value``), as ``ErrorReader.said`` does."""
    raw = next(_messages(value), None)
    return None if raw is None else _fit_to_show(raw, requests, keys)


def _message_in(text: str) -> str | None:
    """Return the message in an error's body ``text``, None if there is none."""
    text = text.strip()
    if not text or text.startswith("<"):  # a gateway's page
        return None
    if text[0] not in '{["':
        return text
    value = parsed(text, strict=False)
    if value is None:  # more than was kept
        found = _MESSAGE.search(text)
        value = parsed(found[1], strict=False) if found is not None else None
    return next(_messages(value), None)


def _messages(value: Any, depth: int = 0, *, every: bool = False) -> Iterator[str]:
    """Yield the messages in an error; ``every``: those of all details, not of the first alone."""
    if isinstance(value, str) and value.strip():
        yield value
    elif depth == _DEEPEST:
        return
    elif isinstance(value, dict):
        for name in ("error", "message", "detail"):
            yield from _messages(value.get(name), depth + 1, every=every)
        if isinstance(value.get("msg"), str):  # FastAPI's list of details: where, and what
            place = value.get("loc")
            steps = place if isinstance(place, list) else ()
            yield ": ".join(filter(None, (".".join(map(str, steps)), value["msg"])))
    elif isinstance(value, list):
        for one in value[: _MOST_DETAILS if every else 1]:
            yield from _messages(one, depth + 1, every=every)


def _fit_to_show(raw: str, requests: Sequence[Request], keys: frozenset[bytes]) -> str | None:
    """Return ``raw`` as one line without text of ``requests`` and ``keys``, WITHHELD, or None."""
    bodies = list({id(request.body): request.body for request in requests}.values())
    is_packed = any(request.header("content-encoding") for request in requests)
    if is_packed or sum(map(len, bodies)) > _LARGEST:
        return WITHHELD

    def stands_there(text: str) -> bool:
        return any(form in body for form in _spellings(text) for body in bodies)

    def without(found: re.Match[str]) -> str:
        mark, text, end = found.groups()
        named = f'"model":{json.dumps(text)}', f'"model": {json.dumps(text)}'
        is_name = any(name.encode() in body for name in named for body in bodies)
        if _OF_THE_API.fullmatch(text) or is_name or not stands_there(text):
            return found[0]
        return f"{mark}…{end}"

    raw = raw.rpartition(_RAISED)[2]
    raw = _QUOTED.sub(without, _ECHO.sub("", raw[:_LOOKED_AT])).strip()[: _LONGEST + _RUN]
    runs = (raw[start : start + _RUN] for start in range(0, len(raw) - _RUN + 1, _STEP))
    if any(map(stands_there, runs)):
        return WITHHELD
    line = " ".join("".join(c if c.isprintable() else " " for c in raw).split())
    known = keys.union(*(carried(one.headers, one.target) for one in requests))
    line = hide_text(line, known)
    return (line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…") or None


def _spellings(text: str) -> set[bytes]:
    """Return the spellings of ``text`` in a body: plain, and both of JSON."""
    spelled = {text, *(json.dumps(text, ensure_ascii=ascii_)[1:-1] for ascii_ in (True, False))}
    return {each.encode("utf-8", "surrogatepass") for each in spelled}
