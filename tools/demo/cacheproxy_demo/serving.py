"""The embedded server behind a proxy until Ctrl-C, for users without a model server."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

from cacheproxy.config import ENV_PREFIX
from cacheproxy.http_client import USUAL, CommandError, proxy_option
from cacheproxy_demo.embedded import LlamaServer, write_model
from cacheproxy_demo.embedded.server import Setting
from cacheproxy_demo.run import scenes, text_of

_SETTINGS: dict[str, Setting] = {"n_parallel": 4, "kv_unified": True, "cache_ram_mib": 256}
"""Defaults of llama-server, except for the memory."""
_BEGIN, _READY = "cacheproxy ", "Ready."
_STOP_SECONDS = 40.0
"""Seconds to wait for the proxy's end: longer than it waits for open answers."""


def serve_until_interrupted(say: Callable[[str], object]) -> None:
    """Start both, print each line of the proxy's log and commands to try, and stop at Ctrl-C.

    ``say`` prints a line. Raises CommandError if one of them does not start, or the proxy ends by
    itself.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _serve(say)
    except KeyboardInterrupt:  # during the start
        say("")


def _serve(say: Callable[[str], object]) -> None:
    """Start server and proxy, follow the proxy's log, and at Ctrl-C stop it."""
    say("starting llama.cpp on a small random model; its answers are meaningless words")
    with tempfile.TemporaryDirectory(prefix="cacheproxy-demo-") as folder:
        model = write_model(Path(folder) / "random.gguf", text=text_of(scenes(embedded=True)))
        config = Path(folder) / "cacheproxy.toml"
        config.touch(0o600)  # cures are written there, and are deleted with the folder
        with LlamaServer(model, **_SETTINGS) as upstream, _proxy(upstream.url, config) as process:
            try:
                _follow(process, say)
            except KeyboardInterrupt:
                _close(process, say)
            except BaseException:
                process.kill()
                raise


def to_try(url: str) -> Iterator[str]:
    """Yield lines with commands to try in another terminal; ``url``: the proxy's."""
    option = proxy_option(url)
    body = '{"messages": [{"role": "user", "content": "hello"}]}'
    yield ""
    yield "Try it in another terminal; each request is a line here. Ctrl-C ends it."
    yield f"  curl {url}/v1/chat/completions -H 'Content-Type: application/json' -d '{body}'"
    yield f"  cacheproxy run{option} claude     (cacheproxy env --help: other clients)"
    yield f"  cacheproxy doctor{option}"
    yield ""


def _proxy(upstream: str, config: Path) -> subprocess.Popen[str]:
    """Start a proxy with default settings, at its usual port if that is free; return the process.

    It ends with this process.
    """
    command = [
        *(sys.executable, "-m", "cacheproxy.child.process", "-n", "--pidfile=", "cacheproxy"),
        *("--config", str(config), "--port", str(_port()), "--state-dir", "none"),
        *("--upstream", upstream),
    ]
    env = {name: value for name, value in os.environ.items() if not name.startswith(ENV_PREFIX)}
    return subprocess.Popen(  # noqa: S603 (this interpreter, our own module)
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        env=env | {"PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"},
        start_new_session=True,  # Ctrl-C does not reach it: we stop it ourselves
    )


def _port() -> int:
    """Return the usual port, or 0 (any free port) if another program uses that."""
    usual = urlsplit(USUAL)
    try:
        with socket.create_server((usual.hostname or "", usual.port or 0)):
            return usual.port or 0
    except OSError:
        return 0


def _follow(process: subprocess.Popen[str], say: Callable[[str], object]) -> NoReturn:
    """Say each line of the proxy's log, and commands to try; CommandError when it ends."""
    url = ""
    for line in _lines(process):
        say(line)
        if line.startswith(_BEGIN) and not url:
            url = line.split()[2]
        elif line.startswith(_READY):
            say("\n".join(to_try(url)))
    raise CommandError(f"The proxy ended with exit code {process.wait()}.")


def _lines(process: subprocess.Popen[str]) -> Iterator[str]:
    """Yield the lines of the process's output, without their ends."""
    assert process.stdout is not None
    for line in process.stdout:
        yield line.rstrip("\n")


def _close(process: subprocess.Popen[str], say: Callable[[str], object]) -> None:
    """End the proxy by closing its input, say its last lines, and wait for its end."""
    assert process.stdin is not None
    process.stdin.close()
    for line in _lines(process):
        say(line)
    process.wait(_STOP_SECONDS)
