"""The real proxy between the official SDKs, for Python and JavaScript, and a scripted upstream."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import needs
from tests.proxy.harness import Proxy

from .scripted import Scripted
from .telling import ask_node

HERE = Path(__file__).parent
LOCKED = ("package.json", "package-lock.json")
NPM_SECONDS = 300
NODE_SECONDS = 60
PING_AFTER = 0.1

Json = dict[str, Any]
Ask = Callable[[str, list[Json]], list[Json]]


@pytest.fixture(scope="session")
def upstream() -> Iterator[Scripted]:
    """A server that behaves as the request's model says; see ``scripted``."""
    upstream = Scripted()
    yield upstream
    upstream.close()
    assert not upstream.errors


@pytest.fixture(scope="session")
def proxy(upstream, tmp_path_factory) -> Iterator[Proxy]:
    """The proxy, as a child process, with pings after a moment."""
    arguments = ("--upstream", upstream.url, "--ping-after", str(PING_AFTER))
    with Proxy(tmp_path_factory.mktemp("proxy"), *arguments) as proxy:
        yield proxy
        assert "Traceback" not in proxy.output


@pytest.fixture(scope="session")
def _packages(pytestconfig, tmp_path_factory) -> Path:
    """A folder with the JavaScript SDKs of the lock file, kept in pytest's cache."""
    needs.program("node")
    npm = needs.program("npm")
    digest = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in LOCKED)).hexdigest()
    cache = getattr(pytestconfig, "cache", None)
    folder = tmp_path_factory.getbasetemp() if cache is None else Path(cache.mkdir("sdk"))
    target = folder / digest[:16]
    if not target.exists():
        fresh = Path(str(target) + f".{os.getpid()}")
        fresh.mkdir()
        for name in LOCKED:
            shutil.copy(HERE / name, fresh)
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        done = subprocess.run(
            command, cwd=fresh, timeout=NPM_SECONDS, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        with contextlib.suppress(OSError):  # another worker was faster
            fresh.rename(target)
    return target


@pytest.fixture(scope="session")
def python() -> Ask:
    """Ask a URL with the Python SDKs, all jobs at once."""
    pytest.importorskip("anthropic")
    pytest.importorskip("openai")
    from .python import ask

    return ask


@pytest.fixture(scope="session")
def javascript(_packages) -> Ask:
    """Ask a URL with the JavaScript SDKs, all jobs at once; see ``ask.mjs``."""

    def ask(url: str, jobs: list[Json]) -> list[Json]:
        return ask_node(_packages, HERE / "ask.mjs", jobs, url, seconds=NODE_SECONDS)

    return ask
