"""The blocking HTTP client of the commands, for requests to a model server or to the proxy.

Each request has a connection of its own. It uses the standard library's ``http.client``, since
``urllib`` would send requests for the loopback interface through the environment's proxy.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPResponse,
    HTTPSConnection,
    IncompleteRead,
    RemoteDisconnected,
)
from ssl import SSLCertVerificationError, SSLError
from typing import Any, TypeVar
from urllib.parse import urlsplit

from cacheproxy.core.kinds.base_url import server_root
from cacheproxy.core.kinds.known import EXAMPLE

HEALTH = "/_cacheproxy/health"  #: path of the proxy's health page
USUAL = "http://127.0.0.1:8081"  #: URL of the proxy for commands that are given none
CONNECT_SECONDS = 5.0
PAGE_SECONDS = 5.0
ANSWER_SECONDS = 3600.0
"""Seconds of silence before an answer, at most: a long prompt on a slow machine takes minutes."""
_MOST_BYTES = 16 << 20
_LOOPBACK = ("localhost", "127.0.0.1", "::1", "0.0.0.0", "::")  # noqa: S104 (compared, not bound)
_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (TimeoutError, "no answer in time"),
    (RemoteDisconnected, "the connection was closed without an answer"),
    (IncompleteRead, "the answer was cut short"),
    (HTTPException, "the answer is not HTTP"),
)

_SAY_WHY = (403, 404, 409, 421, 503)
"""Statuses whose body, on the proxy's pages, is a message for the user."""
_COMMAND = re.compile(
    r"cacheproxy (?:diagnose \d+|doctor|env [\w-]+|run)\b(?: --(?:propose|apply|send|json))*(?! --)"
)
_OURS, _NO_PAGE = "cacheproxy: ", "no such page"
_Question = TypeVar("_Question")
_Answer = TypeVar("_Answer")
_Result = TypeVar("_Result")


class CommandError(Exception):
    """A command cannot go on; the message is one line with the problem and its remedy."""


class NoAnswerError(Exception):
    """A server sent no answer; the message is the reason in a few words."""


@dataclass(frozen=True, slots=True)
class SiteAnswer:
    """A server's response to a request."""

    status: int  #: HTTP status
    body: bytes  #: body as received, not decoded
    seconds: float = 0.0  #: time from connecting to the end of the body
    software: str = ""  #: its header Server; "" for none

    def json(self) -> Any:
        """Return the body's JSON value, None if it is not JSON."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None

    def said(self) -> str:
        """Return the error message in any dialect, a line of at most 160 characters; "" if none."""
        error = self.json()
        for key in ("error", "message", "detail"):
            error = error.get(key, error) if isinstance(error, dict) else error
        line = " ".join(error.split())[:160] if isinstance(error, str) else ""
        return "".join(character for character in line if character.isprintable())


@dataclass(frozen=True, slots=True)
class Site:
    """A server to send requests to, each over a connection of its own."""

    url: str  #: base URL without a slash at its end
    headers: Mapping[str, str] = field(default_factory=dict)  #: headers of every request

    def get(self, path: str, seconds: float = PAGE_SECONDS) -> SiteAnswer:
        """GET ``path``; ``seconds``: the longest silence of the server. Raises NoAnswerError."""
        return self._exchange("GET", path, None, seconds)

    def post(self, path: str, body: bytes, seconds: float = ANSWER_SECONDS) -> SiteAnswer:
        """POST a JSON ``body``; ``seconds`` as for ``get``. Raises NoAnswerError."""
        return self._exchange("POST", path, body, seconds)

    def tell(self, path: str, body: Any = None, seconds: float = ANSWER_SECONDS) -> Any:
        """Return the JSON value at ``path``, None for any status but 200 and for no answer.

        With a ``body`` the request is a POST of its JSON. ``seconds`` as for ``get``. Never raises.
        """
        method, data = ("GET", None) if body is None else ("POST", json.dumps(body).encode())
        try:
            answer = self._exchange(method, path, data, seconds)
        except NoAnswerError:
            return None
        return answer.json() if answer.status == 200 else None

    def health(self) -> Any:
        """Return the health page, None if the server is no cacheproxy or does not answer."""
        page = self.tell(HEALTH, seconds=PAGE_SECONDS)
        return page if is_health(page) else None

    def connect(self, seconds: float = ANSWER_SECONDS) -> HTTPConnection:
        """Return an open connection with a read timeout of ``seconds``. Raises NoAnswerError."""
        parts = urlsplit(self.url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        try:
            connection = kind(parts.hostname or "", parts.port, timeout=CONNECT_SECONDS)
            connection.connect()
        except (OSError, ValueError) as error:
            kinds = (SSLError, TimeoutError) if parts.scheme == "https" else ()
            is_plain = isinstance(error, kinds) and not isinstance(error, SSLCertVerificationError)
            hint = " (does it need http instead of https?)" if is_plain else ""
            raise NoAnswerError(reason_of(error) + hint) from None
        connection.sock.settimeout(seconds)
        return connection

    def begin(
        self, connection: HTTPConnection, method: str, path: str, body: bytes | None
    ) -> HTTPResponse:
        """Send a request; return its unread response. Raises OSError, ValueError, HTTPException."""
        headers = {"Connection": "close"} | dict(self.headers)
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection.request(method, urlsplit(self.url).path + path, body, headers)
        return connection.getresponse()

    def _exchange(self, method: str, path: str, body: bytes | None, seconds: float) -> SiteAnswer:
        """Send one request; return its answer, cut to 16 MiB. Raises NoAnswerError."""
        start = time.perf_counter()
        with closing(self.connect(seconds)) as connection:
            try:
                response = self.begin(connection, method, path, body)
                data = response.read(_MOST_BYTES)
                if response.length and len(data) < _MOST_BYTES:
                    raise IncompleteRead(data, response.length)
            except (OSError, ValueError, HTTPException) as error:
                raise NoAnswerError(reason_of(error)) from None
        software = (response.getheader("Server") or "")[:80]
        return SiteAnswer(response.status, data, time.perf_counter() - start, software)


def have_answered(
    questions: Generator[_Question, _Answer, _Result], answer: Callable[[_Question], _Answer]
) -> _Result:
    """Run the generator ``questions``, answering each by ``answer``; return what it returns."""
    try:
        question = next(questions)
        while True:
            question = questions.send(answer(question))
    except StopIteration as end:
        told: _Result = end.value
        return told


@contextmanager
def after(seconds: float, do: Callable[[], object]) -> Iterator[None]:
    """Call ``do`` in a thread after ``seconds``, unless the body of ``with`` has ended by then."""
    timer = threading.Timer(seconds, do)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def reason_of(error: Exception) -> str:
    """Return the reason, in a few words, why there is no answer."""
    for kind, words in _REASONS:
        if isinstance(error, kind):
            return words
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def checked_url(text: str) -> str:
    """Return a server's root URL (``server_root``); raises CommandError if it is not http(s)."""
    url = server_root(text)
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise CommandError(
            f"{text!r} is not the URL of a server: write it like http://localhost:8080"
        )
    return url


def explain(answer: SiteAnswer, url: str, model: str, option: str) -> str:
    """Return one line about an answer that is not 200: the problem and its remedy.

    ``url`` and ``model``: the request's. ``option``: the command-line option with the server's URL.
    """
    status, said = answer.status, answer.said()
    if "context" in said and status in {400, 413, 500}:
        larger = f"{EXAMPLE.name}: {EXAMPLE.settings.context} 32768"
        advice = f"start the server with a larger context ({larger})."
    elif "model" in said.lower() and status in {400, 404}:
        advice = f"the server has no model {model!r}; choose one of its models with --model."
    elif status in {404, 405, 501}:
        advice = f"check that {option} is the server's root URL and that the server has this API."
    elif status in {401, 403}:
        advice = "give the server's key with --api-key."
    elif status == 503:
        advice = "the server is not ready; wait until its model is loaded."
    else:
        advice = "look in the server's log."
    return f"{url} answered {status}{f' ({said})' if said else ''}: {advice}"


def refused(answer: SiteAnswer, url: str) -> str:
    """Return one line about an answer that is not the proxy's page; ``url``: the proxy's."""
    if answer.status == 401:
        return f"{url} asks for its token: set CACHEPROXY_TOKEN to it"
    value = answer.json()
    error = value.get("error") if isinstance(value, dict) else None
    if isinstance(error, dict):  # the proxy refused access, with an error in an API's format
        message = str(error.get("message"))
        error = message.removeprefix(_OURS) if message.startswith(_OURS) else None
    if isinstance(error, str) and answer.status in _SAY_WHY and _NO_PAGE not in error:
        return error
    return f"the server at {url} is not a cacheproxy of this version (HTTP {answer.status})"


def is_health(page: Any) -> bool:
    """Return whether a JSON value is the health page of a cacheproxy."""
    return isinstance(page, dict) and isinstance(page.get("version"), str) and "upstream" in page


def shown(url: str) -> str:
    """Return ``url`` for people, without user name, password and query; raises ValueError."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}"


def proxy_option(url: str) -> str:
    """Return `` --proxy URL``, by which commands find the proxy; "" for the usual URL."""
    return "" if is_same(url, USUAL) else f" --proxy {shown(url)}"


def is_loopback(url: str) -> bool:
    """Return whether the host of ``url`` is a name or address of the loopback interface."""
    host = urlsplit(url).hostname or ""
    return host in _LOOPBACK or host.startswith("127.")


def is_same(one: str, other: str) -> bool:
    """Return whether two URLs have the same host (any loopback name) and port; False if invalid."""
    try:
        return _host_and_port(one) == _host_and_port(other)
    except ValueError:
        return False


def _host_and_port(url: str) -> tuple[str, int]:
    """Return host (``loopback`` for all such names) and port of ``url``; raises ValueError."""
    parts = urlsplit(url)
    host = "loopback" if is_loopback(url) else (parts.hostname or "")
    return host, parts.port or (443 if parts.scheme == "https" else 80)


def with_proxy(text: str, proxy: str) -> str:
    """Return ``text`` with --proxy added to cacheproxy's commands in it, if they need it."""
    option = proxy_option(proxy)
    return _COMMAND.sub(lambda found: found[0] + option, text)
