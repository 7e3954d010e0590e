"""One tree's proxy, fed one capture before a scripted upstream; what was seen, as plain values."""

from __future__ import annotations

import contextlib
import http.client
import json
import lzma
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from same import steady
from same.replies import Json, said_after
from same.upstream import LINE, Got, Kind, Upstream

START_SECONDS, ANSWER_SECONDS, STOP_SECONDS = 60.0, 60.0, 20.0
PAGES = "/_cacheproxy/"
_NO_TOTALS = ("--state-dir", "none")
_RUN = "import sys; from twisted.scripts.twistd import run; sys.exit(run())"
_OWN = frozenset({"host", "connection", "content-length", "transfer-encoding"})


@dataclass(frozen=True)
class Variant:
    """One way to run it: the server behind it, the proxy's options, the captures that it suits."""

    kind: Kind
    options: tuple[str, ...] = ()
    suits: Callable[[str], bool] = bool
    """Takes the path of a capture's prompts."""


_PINS = "claude-pin-current-date,claude-pin-git-status,claude-pin-date,openclaw-pin-current-date"


def _is_anthropic(path: str) -> bool:
    return path.partition("?")[0].endswith("/messages")


def _is_chat(path: str) -> bool:
    return path.endswith("/chat/completions")


VARIANTS = {
    "plain": Variant(Kind()),
    "hoists": Variant(Kind(llama=True, hoists=True)),
    "refuses": Variant(Kind(llama=True, refuses=True), suits=_is_anthropic),
    "pins": Variant(Kind(llama=True), ("--enable", _PINS)),
    "chat": Variant(Kind(llama=True, without=("/messages", "/count_tokens")), suits=_is_anthropic),
    "messages": Variant(
        Kind(without=("/chat/completions",)), ("--dialect", "anthropic"), suits=_is_chat
    ),
}


def load(capture: Path) -> list[Json]:
    """Return the lines of a capture (``.jsonl``, ``.jsonl.xz``)."""
    opened = lzma.open if capture.suffix == ".xz" else open
    with opened(capture, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def run(tree: Path, capture: Path, name: str, bodies: Path) -> Json:
    """Send one capture through the tree's proxy; ``bodies``: folder for the bytes that were seen.

    Raises RuntimeError, with its log, when the proxy does not start.
    """
    variant, lines = VARIANTS[name], load(capture)
    said = {number: said_after(lines, number) for number in range(len(lines))}
    with (
        tempfile.TemporaryDirectory() as folder,
        Upstream(variant.kind, said) as upstream,
        Proxy(tree, Path(folder), upstream.port, (*_NO_TOTALS, *variant.options)) as proxy,
    ):
        seen = _Seen(bodies, {str(upstream.port): "UPSTREAM", str(proxy.port): "PROXY"}, folder)
        asked = [seen.asked(got, upstream) for got in upstream.got]
        exchanges = []
        for number, line in enumerate(lines):
            begun = len(upstream.got)
            answered = proxy.send(line, number)
            proxy.wait_for(number + 1)
            came = upstream.got[begun:]
            exchanges.append(
                {
                    "up": [seen.request(got) for got in came if got.line is not None],
                    "asked": [seen.asked(got, upstream) for got in came if got.line is None],
                    "down": seen.answer(*answered),
                }
            )
        pages = proxy.pages(len(lines))
        status = proxy.stop()
        log = (Path(folder) / "log").read_text(errors="replace")
        return {
            "asked": asked,
            "exchanges": exchanges,
            "pages": {name: seen.page(name, page) for name, page in pages.items()},
            "log": steady.log(seen.text(log)),
            "exit": status,
        }


@dataclass(frozen=True)
class _Seen:
    """Makes what was seen equal for equal behaviour: ``ports`` and ``folder`` get names."""

    bodies: Path
    ports: dict[str, str]
    folder: str

    def text(self, text: str) -> str:
        for port, name in self.ports.items():
            text = text.replace(f":{port}", f":{name}")
        return steady.text(text.replace(self.folder, "FOLDER"))

    def headers(self, headers: Any) -> list[str]:
        return [f"{name}: {self.text(value)}" for name, value in headers if name != "Date"]

    def request(self, got: Got) -> Json:
        head = [f"{got.method} {got.target}", *self.headers(got.headers)]
        return {"head": head, "body": steady.kept(got.body, self.bodies)}

    def asked(self, got: Got, upstream: Upstream) -> str:
        body = self.text(upstream.steady(got.body.decode("utf-8", "replace")))
        kept = steady.kept(steady.day(body).encode("utf-8", "replace"), self.bodies)
        return f"{got.method} {got.target} {kept}"

    def answer(self, status: int, headers: Any, body: bytes) -> Json:
        head = [str(status), *self.headers(headers)]
        return {"head": head, "body": steady.kept(steady.answer(body), self.bodies)}

    def page(self, name: str, page: tuple[int, bytes]) -> Any:
        status, body = page
        text = self.text(body.decode("utf-8", "replace"))
        if name == "metrics":
            return steady.metrics(text)
        try:
            return {"status": status, "page": steady.values(json.loads(text))}
        except ValueError:
            return {"status": status, "page": text.splitlines()}


class Proxy:
    """``twistd -n cacheproxy`` of one tree, in the tree's interpreter, while it is entered."""

    def __init__(
        self,
        tree: Path,
        folder: Path,
        upstream: int,
        options: tuple[str, ...] = (),
        first: str = "",
    ) -> None:
        """Start it; ``first``: what the process does before anything is imported."""
        self._log = folder / "log"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("CACHEPROXY_", "PYTHON"))
            and not name.lower().endswith("_proxy")
        }
        command = [
            *(str(tree / ".venv/bin/python"), "-c", f"{first}\n{_RUN}", "-n", "--pidfile="),
            *("cacheproxy", "--config", os.devnull, "--poll", "0"),
            *("--port", str(self.port), "--upstream", f"http://127.0.0.1:{upstream}", *options),
        ]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env={**kept, "HOME": str(folder), "TZ": "UTC", "PYTHONIOENCODING": "utf-8"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._connection = http.client.HTTPConnection(
            "127.0.0.1", self.port, timeout=ANSWER_SECONDS
        )

    def __enter__(self) -> Self:
        until = time.monotonic() + START_SECONDS
        while "Ready." not in (log := self._log.read_text(errors="replace")):
            if self._process.poll() is not None or time.monotonic() > until:
                self._process.kill()
                message = f"the proxy did not start:\n{log}"
                raise RuntimeError(message)
            time.sleep(0.02)
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._process.kill()
        self._process.wait()

    def send(self, line: Json, number: int) -> tuple[int, list[tuple[str, str]], bytes]:
        """Send one line of a capture; return status, headers and body of the answer."""
        body = line["body"].encode("utf-8", "surrogatepass")
        self._connection.putrequest(
            line["method"], line["path"], skip_host=True, skip_accept_encoding=True
        )
        self._connection.putheader("Host", f"127.0.0.1:{self.port}")
        for name, value in line["headers"].items():
            if name.lower() not in _OWN:
                self._connection.putheader(name, value)
        self._connection.putheader(LINE, str(number))
        if body or line["method"] == "POST":
            self._connection.putheader("Content-Length", str(len(body)))
        self._connection.endheaders(body)
        response = self._connection.getresponse()
        return response.status, response.getheaders(), response.read()

    def page(self, name: str) -> tuple[int, bytes]:
        """Return status and body of one of the proxy's own pages."""
        with contextlib.closing(self._connected()) as asking:
            asking.request("GET", PAGES + name)
            response = asking.getresponse()
            return response.status, response.read()

    def _connected(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_SECONDS)

    def wait_for(self, exchanges: int) -> None:
        """Return when the last of so many exchanges has been judged, or after ten seconds."""
        until = time.monotonic() + 10
        while time.monotonic() < until:
            listed = json.loads(self.page("exchanges")[1])["exchanges"]
            if any(exchange["number"] == exchanges for exchange in listed):
                return
            time.sleep(0.005)

    def pages(self, exchanges: int) -> dict[str, tuple[int, bytes]]:
        """Return the proxy's own pages by name."""
        numbers = range(1, exchanges + 1)
        names = [
            *("exchanges", "requests", "data", "metrics", "diagnose/last", "health"),
            *(f"{page}/{number}" for page in ("diagnose", "detail") for number in numbers),
        ]
        return {name: self.page(name) for name in names}

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> int:
        """Ask it to end; return its exit status."""
        self._connection.close()
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(STOP_SECONDS)
