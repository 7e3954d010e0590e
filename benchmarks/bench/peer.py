"""A proxy to measure: how it is started, pinned to a core, awaited and stopped.

Every peer listens on 127.0.0.1, forwards to an upstream on 127.0.0.1, and is one worker process.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

BENCHMARKS = Path(__file__).resolve().parent.parent
SCRIPTS = Path(__file__).resolve().parent / "peers"
HOME = BENCHMARKS / ".peers"
"""Where ``--setup`` installs what is measured; not part of the repository."""
VENV = HOME / "venv"
MITM_VENV = HOME / "mitmproxy"
BUN_FOLDER = HOME / "bun"

SETUP = "run with --setup first"
BILLING = r'x-anthropic-billing-header:[^"]*?cch=[0-9a-f]+;'
CONSTANT = "x-anthropic-billing-header: cc_version=0; cc_entrypoint=cli; cch=00000;"
"""What every editing peer replaces in a request's body, and by what."""

START_SECONDS = 30.0
STOP_SECONDS = 5.0
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Place:
    """Where one peer is to run: ``port`` to listen on, ``upstream`` (a port) to forward to."""

    port: int
    upstream: int
    folder: Path
    """Its own, for a configuration, logs and temporary files."""
    python: Path
    """The interpreter for peers that need nothing but the standard library (or the tree's own)."""


@dataclass(frozen=True)
class Running:
    """A started peer. ``stop()`` ends it and its children; so does leaving the ``with``."""

    process: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        return self.process.pid

    def pids(self) -> list[int]:
        """Return the process and all its descendants that live now."""
        found = [self.pid]
        for pid in found:
            found.extend(_children(pid))
        return found

    def stop(self) -> None:
        """Ask it to end, wait 5 seconds, then kill its whole process group."""
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


@dataclass(frozen=True)
class Peer:
    """One proxy of the table. ``edits`` is False for one that forwards the body as it came."""

    name: str
    edits: bool
    command: Callable[[Place], list[str]]
    """What to run; may write a configuration into ``place.folder`` first."""
    lack: Callable[[], str]
    """What has to be installed first, in one line; empty when nothing."""

    def missing(self) -> str:
        return self.lack()

    def start(
        self, port: int, upstream: int, core: int | None, folder: Path, python: Path
    ) -> Running:
        """Start it pinned to ``core`` (any core when None); return once the port accepts.

        Raises RuntimeError, with the end of its log, when it exits first or takes 30 seconds.
        """
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / f"{self.name}.log"
        argv = self.command(Place(port, upstream, folder.resolve(), python))

        def pin() -> None:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if core is not None:
                os.sched_setaffinity(0, {core})

        with log.open("wb") as output:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=pin,  # noqa: PLW1509 - no threads run yet when a peer is started
            )
        running = Running(process)
        deadline = time.monotonic() + START_SECONDS
        while not _accepts(port):
            if process.poll() is not None or time.monotonic() > deadline:
                running.stop()
                tail = log.read_text(errors="replace")[-2000:]
                raise RuntimeError(f"{self.name} does not listen on port {port}:\n{tail}")
            time.sleep(0.02)
        return running


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found.extend(map(int, path.read_text().split()))
        except OSError:  # the thread or process ended meanwhile
            continue
    return found


def _nothing() -> str:
    return ""


def _needs_nginx() -> str:
    return "" if shutil.which("nginx") else "apt-get install nginx-light"


def _needs_venv() -> str:
    return "" if (VENV / "bin" / "uvicorn").exists() else SETUP


def _needs_mitm() -> str:
    return "" if (MITM_VENV / "bin" / "mitmdump").exists() else SETUP


def _needs_bun() -> str:
    return "" if bun() else f"{SETUP} (with npm)"


def bun() -> str:
    """Return the binary: the package for this kind of machine has it, ``bun`` only points there."""
    return next(map(str, BUN_FOLDER.glob("node_modules/@oven/bun-*/bin/bun")), "")


def _http_server(place: Place) -> list[str]:
    return [str(place.python), str(SCRIPTS / "http_server.py"), *_ports(place)]


def _twisted(place: Place) -> list[str]:
    return [str(place.python), str(SCRIPTS / "twisted_floor.py"), *_ports(place)]


def _nginx(place: Place) -> list[str]:
    text = (SCRIPTS / "nginx.conf").read_text()
    text = text.replace("@PORT@", str(place.port)).replace("@UPSTREAM@", str(place.upstream))
    if os.geteuid() == 0:  # else its worker becomes "nobody", who may not write into the folder
        text = f"user root;\n{text}"
    config = place.folder / "nginx.conf"
    config.write_text(text)
    folder = f"{place.folder}/"
    return ["nginx", "-p", folder, "-e", f"{folder}nginx-error.log", "-c", str(config)]


def _fastapi(place: Place) -> list[str]:
    return [str(VENV / "bin" / "python"), str(SCRIPTS / "fastapi_httpx.py"), *_ports(place)]


def _aiohttp(place: Place) -> list[str]:
    return [str(VENV / "bin" / "python"), str(SCRIPTS / "aiohttp_proxy.py"), *_ports(place)]


def _bun_serve(place: Place) -> list[str]:
    return [bun(), str(SCRIPTS / "bun.js"), *_ports(place)]


def _mitmproxy(place: Place) -> list[str]:
    options = {
        "mode": f"reverse:http://127.0.0.1:{place.upstream}",
        "listen_host": "127.0.0.1",
        "listen_port": place.port,
        "modify_body": f"|~q|{BILLING}|{CONSTANT}",
        "flow_detail": 0,
        "termlog_verbosity": "error",
        "confdir": place.folder / "mitmproxy",
    }
    settings = [word for name, value in options.items() for word in ("--set", f"{name}={value}")]
    return [str(MITM_VENV / "bin" / "mitmdump"), "-s", str(SCRIPTS / "mitm.py"), *settings]


def _ports(place: Place) -> list[str]:
    return [str(place.port), str(place.upstream)]


PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        Peer("nginx", False, _nginx, _needs_nginx),
        Peer("bun", True, _bun_serve, _needs_bun),
        Peer("twisted", True, _twisted, _nothing),
        Peer("http.server", True, _http_server, _nothing),
        Peer("aiohttp", True, _aiohttp, _needs_venv),
        Peer("fastapi", True, _fastapi, _needs_venv),
        Peer("mitmproxy", True, _mitmproxy, _needs_mitm),
    )
}
"""All peers but cacheproxy itself, the floor first."""
