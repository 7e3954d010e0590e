"""One tree's proxy, fed one capture before a scripted upstream; what was seen, as plain values."""

from __future__ import annotations

import contextlib
import http.client
import json
import lzma
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from same import kept, midnight, steady
from same.replies import Json, said_after
from same.upstream import LINE, Got, Upstream
from same.variants import VARIANTS, Variant

START_SECONDS, ANSWER_SECONDS, STOP_SECONDS = 60.0, 60.0, 20.0
PAGES = "/_cacheproxy/"
_NO_TOTALS = ("--state-dir", "none")
_POLLS = ("--poll", "0.1")
_RUN = "import sys; from twisted.scripts.twistd import run; sys.exit(run())"
_HERE = Path(__file__).resolve().parents[2]
_OWN = frozenset({"host", "connection", "content-length", "transfer-encoding"})


def load(capture: Path) -> list[Json]:
    """Return the lines of a capture (``.jsonl``, ``.jsonl.xz``)."""
    opened = lzma.open if capture.suffix == ".xz" else open
    with opened(capture, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def run(tree: Path, capture: Path, name: str, bodies: Path) -> Json:
    """Send one capture through the tree's proxy; ``bodies``: folder for the bytes that were seen.

    Raises RuntimeError, with its log, when the proxy does not start.
    """
    variant = VARIANTS[name]
    lines = variant.lines(load(capture))
    said = {number: variant.said(said_after(lines, number), number) for number in range(len(lines))}
    with (
        tempfile.TemporaryDirectory() as made,
        Upstream(variant.kind, said) as upstream,
        _refusing_port() as gone,
    ):
        folder = Path(made)
        midnight.set_clock(folder, midnight.EVENING)
        with _proxy(tree, folder, variant, upstream.port, gone) as proxy:
            ports = {upstream.port: "UPSTREAM", proxy.port: "PROXY", gone: "GONE"}
            seen = _Seen(bodies, {str(port): each for port, each in ports.items()}, folder)
            asked: Any = seen.asked(upstream.got, upstream)
            exchanges = list(_exchanges(variant, lines, proxy, upstream, seen))
            pages = proxy.pages(len(lines))
            status = proxy.stop()
        if variant.asks_at_will:
            asked = dict.fromkeys(seen.asked(upstream.got, upstream), "asked")
        return {
            "asked": asked,
            "exchanges": exchanges,
            "pages": {name: seen.page(name, page) for name, page in pages.items()},
            "log": steady.log(seen.text((folder / "log").read_text(errors="replace"))),
            "capture": kept.captured(folder / "capture", seen.text, bodies),
            "totals": kept.rows(folder / "state", seen.text),
            "exit": status,
        }


def _proxy(tree: Path, folder: Path, variant: Variant, port: int, gone: int) -> Proxy:
    """Return the proxy of ``tree`` as ``variant`` has it, before the upstream at ``port``."""
    config = folder / "config.toml"
    config.write_text(variant.config.format(here=port, gone=gone))
    options = tuple(option.replace("{folder}", str(folder)) for option in variant.options)
    return Proxy(
        tree,
        folder,
        None if variant.config else port,
        ("--config", str(config), *_NO_TOTALS, *(_POLLS if variant.polls else ()), *options),
        first=midnight.CLOCK if variant.clock else "",
    )


def _exchanges(
    variant: Variant, lines: Sequence[Json], proxy: Proxy, upstream: Upstream, seen: _Seen
) -> Iterator[Json]:
    """Send each line, and yield what that led to once it has been judged."""
    now = midnight.EVENING
    night = midnight.falls_at(lines) if variant.nightfall else None
    for number, line in enumerate(lines):
        if number == night:
            now = midnight.MORNING
        midnight.set_clock(seen.folder, now := now + midnight.STEP)
        upstream.today = now.date()
        begun = len(upstream.got)
        answered = proxy.send(line, number)
        proxy.wait_for(number + 1)
        if variant.polls:
            upstream.wait_for_look()
        came = upstream.got[begun:]
        yield {
            "up": [seen.request(got) for got in came if got.line is not None],
            "asked": [] if variant.asks_at_will else seen.asked(came, upstream),
            "down": seen.answer(*answered),
        }


@contextlib.contextmanager
def _refusing_port() -> Iterator[int]:
    """Yield a port at which nobody listens, nor will."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@dataclass(frozen=True)
class _Seen:
    """Makes what was seen equal for equal behaviour: ``ports`` and ``folder`` get names."""

    bodies: Path
    ports: dict[str, str]
    folder: Path

    def text(self, text: str) -> str:
        for port, name in self.ports.items():
            text = text.replace(f":{port}", f":{name}")
        return steady.text(text.replace(str(self.folder), "FOLDER"))

    def headers(self, headers: Any) -> list[str]:
        return [f"{name}: {self.text(value)}" for name, value in headers if name != "Date"]

    def request(self, got: Got) -> Json:
        head = [f"{got.method} {got.target}", *self.headers(got.headers)]
        return {"head": head, "body": steady.kept(got.body, self.bodies)}

    def asked(self, got: Iterable[Got], upstream: Upstream) -> list[str]:
        """Return what the proxy itself asked."""
        return [self._asked(each, upstream) for each in got if each.line is None]

    def _asked(self, got: Got, upstream: Upstream) -> str:
        body = self.text(upstream.steady(got.body.decode("utf-8", "replace")))
        name = steady.kept(steady.day(body).encode("utf-8", "replace"), self.bodies)
        return f"{got.method} {got.target} {name}"

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


def interpreter(tree: Path) -> str:
    """Return the Python of ``tree``: its own, or this one where it is this tree's."""
    own = tree / ".venv/bin/python"
    return sys.executable if not own.exists() and tree == _HERE else str(own)


def _free_port() -> int:
    """Return a port at which nobody listens, of those that no outgoing connection is given."""
    while True:
        with socket.socket() as free, contextlib.suppress(OSError):
            free.bind(("127.0.0.1", random.randrange(10_000, 32_000)))
            return free.getsockname()[1]


class Proxy:
    """``twistd -n cacheproxy`` of one tree, in the tree's interpreter, while it is entered."""

    def __init__(
        self,
        tree: Path,
        folder: Path,
        upstream: int | None,
        options: tuple[str, ...] = (),
        first: str = "",
    ) -> None:
        """Start it; ``first``: what the process does before anything is imported.

        ``upstream``: its port, None where a file that ``options`` name has it.
        """
        self._log = folder / "log"
        self.port = _free_port()
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("CACHEPROXY_", "PYTHON"))
            and not name.lower().endswith("_proxy")
        }
        command = [
            *(interpreter(tree), "-c", f"{first}\n{_RUN}", "-n", "--pidfile="),
            *("cacheproxy", "--config", os.devnull, "--poll", "0"),
            *("--port", str(self.port), *options),
        ]
        if upstream is not None:
            command += ("--upstream", f"http://127.0.0.1:{upstream}")
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
