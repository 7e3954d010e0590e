"""One request, one answer, one connection; and each way it fails as one line for people.

The standard library's ``http.client`` and not ``urllib``, which would send requests for the
loopback interface through a proxy named in the environment.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from typing import Any
from urllib.parse import urlsplit

from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.usage_reader import UsageReader
from cacheproxy.core.server.base_url import server_root
from cacheproxy.replay.answer import AnswerReader
from cacheproxy.replay.errors import ReplayError

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 3600.0
"""A long prompt on a slow machine takes minutes before the first byte."""
_LONGEST_ERROR = 1 << 16
"""Bytes of an answer that is not 200: its error text is near the start."""

ROOT_ADVICE = "is --upstream the server's root, and does it speak this API (--api)?"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. ``status`` 0: the connection broke before, or in, the answer.

    ``first``: seconds from the request to the first generated text, or to the end if no text
    came; ``seconds``: to the end. ``text``: what was generated. ``error``: one line, or None.
    """

    status: int
    usage: Usage
    first: float | None
    seconds: float
    text: str = ""
    error: str | None = None


def send(url: str, target: str, headers: Mapping[str, str], body: bytes, model: str) -> Answer:
    """POST ``body`` to the server at ``url`` and read the answer as it comes, streamed or not.

    ``model``: as the body names it, for the error text. Raises ReplayError if nobody is there.
    """
    connection = connect(url, "start the model server there, or mend --against.")
    start = time.perf_counter()
    try:
        connection.request("POST", urlsplit(url).path + target, body, dict(headers))
        response = connection.getresponse()
        if response.status != 200:
            said = response.read(_LONGEST_ERROR)
            line = explain(
                response.status,
                said,
                url + target.partition("?")[0],
                model,
                root="is --against the server's root, and does it speak this API?",
            )
            return Answer(response.status, Usage(), None, time.perf_counter() - start, error=line)
        return _read(response, start)
    except (HTTPException, OSError) as error:
        seconds = time.perf_counter() - start
        line = f"{url} broke off its answer ({reason_of(error)})."
        return Answer(0, Usage(), None, seconds, error=line)
    finally:
        connection.close()


def ask(url: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
    """Return the JSON value that ``path`` answers; None for anything but a good answer.

    With a ``body`` it is a POST of its JSON. Never raises: these questions are extras.
    """
    data = None if body is None else json.dumps(body).encode()
    try:
        connection = connect(url, "")
    except ReplayError:
        return None
    try:
        method = "GET" if data is None else "POST"
        connection.request(method, urlsplit(url).path + path, data, _plain_headers(headers))
        response = connection.getresponse()
        answer = response.read()
        return json.loads(answer) if response.status == 200 else None
    except (HTTPException, OSError, ValueError, RecursionError):
        return None
    finally:
        connection.close()


def connect(url: str, mend: str) -> HTTPConnection:
    """Return an open connection to the server at ``url``.

    Raises ReplayError, ending in ``mend``, if there is none.
    """
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    assert parts.hostname is not None
    connection = kind(parts.hostname, parts.port, timeout=CONNECT_SECONDS)
    try:
        connection.connect()
    except OSError as error:
        raise ReplayError(f"No answer from {url} ({reason_of(error)}): {mend}") from None
    connection.sock.settimeout(ANSWER_SECONDS)
    return connection


def reason_of(error: Exception) -> str:
    """Return what an error of the connection is, in a few words."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__ if isinstance(error, HTTPException) else str(error) or "OSError"


def checked_url(text: str, example: str = "http://localhost:8080") -> str:
    """Return a server's URL as ``server_root`` does.

    Raises ReplayError if it is no http or https URL.
    """
    url = server_root(text)
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ReplayError(f"{text!r} is no URL of a server: write it like {example}")
    return url


def explain(status: int, answer: bytes, url: str, model: str, *, root: str = ROOT_ADVICE) -> str:
    """Return one line on an answer that is not 200: what is wrong and what mends it.

    ``root``: what to say where the server does not know the path.
    """
    said = _message(answer)
    if "context" in said and status in {400, 413, 500}:
        advice = "start the server with a larger context (llama-server: -c 32768)."
    elif "model" in said.lower() and status in {400, 404}:
        advice = f"it does not serve {model!r}; choose one of its models with --model."
    elif status in {404, 405, 501}:
        advice = root
    elif status in {401, 403}:
        advice = "give the server's key with --api-key."
    elif status == 503:
        advice = "the server is not ready; wait until its model is loaded."
    else:
        advice = "the server's log should say why."
    return f"{url} answered {status}{f' ({said})' if said else ''}: {advice}"


def _read(response: HTTPResponse, start: float) -> Answer:
    content_type = response.headers.get("Content-Type", "")
    usage, answer = UsageReader(content_type), AnswerReader(content_type)
    first = None
    while data := response.read1(1 << 16):
        usage.feed(data)
        answer.feed(data)
        if first is None and answer.text:
            first = time.perf_counter() - start
    seconds = time.perf_counter() - start
    if response.length:  # read1 takes a body cut short for a whole one
        raise IncompleteRead(b"", response.length)
    text = answer.close()
    return Answer(200, usage.close(), seconds if first is None else first, seconds, text)


def _message(answer: bytes) -> str:
    """Return the error text of an answer in any dialect, on one line, or an empty string."""
    try:
        error = json.loads(answer)
        for key in ("error", "message"):
            error = error.get(key, error) if isinstance(error, dict) else error
    except (ValueError, RecursionError):
        return ""
    if not isinstance(error, str):
        return ""
    line = " ".join(error.split())[:120]
    return "".join(character for character in line if character.isprintable())


def _plain_headers(more: Mapping[str, str] | None) -> dict[str, str]:
    return {"Content-Type": "application/json", "Connection": "close", **(more or {})}
