"""The demo's HTTP client: one request, one answer, one connection.

The standard library's ``http.client`` and not ``urllib``, which would send requests for the
loopback interface through a proxy named in the environment.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import SplitResult, urlsplit

from cacheproxy.core.usage import Usage, usage_of
from cacheproxy.demo.errors import DemoError

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 3600.0
"""A long prompt on a slow machine takes minutes before the first byte."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one request cost: the server's own figures, and seconds until the whole answer."""

    usage: Usage
    wall: float


@dataclass(frozen=True, slots=True)
class Client:
    """Speaks to the server at ``url``; the path of an API is added to it.

    Raises DemoError from every method for whatever keeps it from a good answer.
    """

    url: str
    headers: dict[str, str] = field(default_factory=dict)

    def post(self, path: str, body: dict[str, Any]) -> Cost:
        """Send ``body`` and return what it cost."""
        data = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        start = time.perf_counter()
        status, answer = self._exchange("POST", path, data)
        wall = time.perf_counter() - start
        if status != 200:
            raise DemoError(explain(status, answer, self.url + path, body["model"]))
        try:
            return Cost(usage_of(json.loads(answer)), wall)
        except ValueError:
            raise DemoError(f"{self.url}{path} answered with something that is no JSON.") from None

    def models(self) -> list[str]:
        """Return the names of the models the server offers; none if it does not say."""
        status, answer = self._exchange("GET", "/v1/models", None)
        try:
            names = [model["id"] for model in json.loads(answer)["data"]] if status == 200 else []
        except (ValueError, LookupError, TypeError):
            return []
        return [name for name in names if isinstance(name, str)]

    def _exchange(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        parts = urlsplit(self.url)
        connection = _connection(parts)
        headers = {"Content-Type": "application/json", "Connection": "close"} | self.headers
        try:
            connection.connect()
            connection.sock.settimeout(ANSWER_SECONDS)
            connection.request(method, parts.path + path, body, headers)
            response = connection.getresponse()
            return response.status, response.read()
        except HTTPException as error:
            raise DemoError(
                f"{self.url} answers, but not in HTTP ({type(error).__name__}): "
                "give --upstream the model server's URL."
            ) from None
        except OSError as error:
            reason = error.strerror or str(error) or type(error).__name__
            raise DemoError(
                f"No answer from {self.url} ({reason}): start the model server there, "
                "or leave out --upstream to use the embedded one."
            ) from None
        finally:
            connection.close()


def checked_url(text: str) -> str:
    """Return a server's URL without the slash or ``/v1`` at its end.

    Raises DemoError if it is no http or https URL.
    """
    try:
        parts = urlsplit(text)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise DemoError(f"{text!r} is no URL of a server: write it like http://localhost:8080")
    return text.rstrip("/").removesuffix("/v1")


def explain(status: int, answer: bytes, url: str, model: str) -> str:
    """Return one line on an answer that is not 200: what is wrong and what mends it."""
    said = _message(answer)
    if "context" in said and status in {400, 413, 500}:
        advice = "start the server with a larger context (llama-server: -c 32768)."
    elif "model" in said.lower() and status in {400, 404}:
        advice = f"it does not serve {model!r}; choose one of its models with --model."
    elif status in {404, 405, 501}:
        advice = "is --upstream the server's root, and does it speak this API (--api)?"
    elif status in {401, 403}:
        advice = "give the server's key with --api-key."
    elif status == 503:
        advice = "the server is not ready; wait until its model is loaded."
    else:
        advice = "the server's log should say why."
    return f"{url} answered {status}{f' ({said})' if said else ''}: {advice}"


def _message(answer: bytes) -> str:
    """Return the error text of an answer in any dialect, on one line, or an empty string."""
    try:
        error = json.loads(answer)
        for key in ("error", "message"):
            error = error.get(key, error) if isinstance(error, dict) else error
    except ValueError:
        return ""
    return " ".join(error.split())[:120] if isinstance(error, str) else ""


def _connection(parts: SplitResult) -> HTTPConnection:
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    assert parts.hostname is not None
    return kind(parts.hostname, parts.port, timeout=CONNECT_SECONDS)
