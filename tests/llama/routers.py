"""Real routers between the proxy and several real servers, as docs/fleet.md has them.

Shared by the tests here and by ``benchmarks/routers.py``. The page is the source: of each of its
recipes the files and the command are taken, with other ports.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from cacheproxy_demo.embedded import LlamaServer
from cacheproxy_replay.server import send

from cacheproxy.core.prompt.request import Request
from cacheproxy.core.route.stamp import root_key
from cacheproxy.http_client import Site
from cacheproxy.plugin.packages import Packages
from cacheproxy.record.exchange import Exchange
from cacheproxy.testing import find_captures, load_capture
from tests.proxy.harness import free_port

from .replay import APIS, PATHS, body_for, headers_of

PAGE = Path(__file__).parents[2] / "docs/fleet.md"
MODEL = "random"
ROUTER, WORKERS = 9000, (9001, 9002, 9003)
"""The ports that the page has."""
SETTINGS = {"n_parallel": 4, "kv_unified": True, "cache_ram_mib": 8192, "n_ctx": 131_072}
"""What llama-server has by default."""
START_SECONDS, SETTLE_SECONDS = 120.0, 4.0


_HELLO = json.dumps(
    {"model": MODEL, "max_tokens": 1, "messages": [{"role": "user", "content": "Hello."}]}
).encode()


_CREDENTIALS = ("authorization", "x-api-key", "api-key")
_SERVE = "cacheproxy serve --upstream http://localhost:9000 --session-header X-Conversation-Key"


class Recipe(NamedTuple):
    """A router of the page: its ``files`` by name, the ``command`` that runs it.

    ``options``: those of the proxy before it, but for the upstream. ``key``: what it asks for.
    """

    name: str
    files: Mapping[str, str]
    command: str
    options: tuple[str, ...]
    key: str


def recipes() -> dict[str, Recipe]:
    """Return the routers of the page by their headings."""
    found = {}
    for section in re.split(r"^### ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        name = section.partition("\n")[0].strip()
        blocks = re.findall(r"^```(\w+)\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
        files = {
            text.partition("\n")[0].removeprefix("# "): text
            for kind, text in blocks
            if kind != "sh" and text.startswith("# ")
        }
        for linked in re.findall(r"\]\(routers/([\w.]+)\)", section):
            files[linked] = (PAGE.parent / "routers" / linked).read_text(encoding="utf-8")
        commands = [text for kind, text in blocks if kind == "sh"]
        said = [text for kind, text in blocks if text.startswith("cacheproxy serve ")] or [_SERVE]
        if commands:
            options = tuple(shlex.split(said[0])[4:])
            key = re.findall(r"master_key: (\S+)", "".join(files.values()))
            command = commands[0].replace("\\\n", " ")
            found[name] = Recipe(name, files, command, options, key[0] if key else "none")
    return found


@contextlib.contextmanager
def routing(recipe: Recipe, workers: Sequence[str], folder: Path) -> Iterator[str]:
    """Run the router in ``folder`` before ``workers`` (URLs); yield its URL."""
    port = free_port()
    ports = dict(zip(map(str, (ROUTER, *WORKERS)), [port, *map(_port, workers)], strict=True))

    def moved(text: str) -> str:
        return re.sub(r"\b900[0-3]\b", lambda found: str(ports[found[0]]), text)

    for name, text in recipe.files.items():
        (folder / name).write_text(moved(text), encoding="utf-8")
    words = shlex.split(moved(recipe.command), comments=True)
    program = shutil.which(words[0], path=f"{os.environ['PATH']}:/usr/sbin")
    assert program is not None, f"{words[0]} is not installed"
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [program, *words[1:]], cwd=folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait(process, Site(url, {"Authorization": f"Bearer {recipe.key}"}), folder)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], site: Site, folder: Path) -> None:
    """Wait until the router answers for a worker, and has taken up the others."""
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        assert process.poll() is None, (folder / "log").read_text()[-2000:]
        with contextlib.suppress(Exception):
            if site.post(PATHS["chat"], _HELLO).status == 200:
                time.sleep(SETTLE_SECONDS)
                return
        time.sleep(0.5)
    raise AssertionError((folder / "log").read_text()[-2000:])


def _port(url: str) -> int:
    return int(url.rpartition(":")[2])


@dataclass
class Fleet:
    """Real llama.cpp ``servers``; which one worked is told by what it has counted."""

    servers: Sequence[LlamaServer]
    counts: list[int] = field(default_factory=list)

    @property
    def urls(self) -> list[str]:
        return [server.url for server in self.servers]

    def worked(self) -> dict[int, int]:
        """Return the tokens that each server has evaluated since this was asked last."""
        counts = [_evaluated(url) for url in self.urls]
        before, self.counts = self.counts or [0] * len(counts), counts
        pairs = zip(before, counts, strict=True)
        return {at: new - old for at, (old, new) in enumerate(pairs) if new > old}


def _evaluated(url: str) -> int:
    page = Site(url).get("/metrics").body.decode()
    (found,) = re.findall(r"^llamacpp:prompt_tokens_total (\d+)", page, re.MULTILINE)
    return int(found)


@dataclass
class Tally:
    """What a pass cost: ``evaluated`` tokens of ``prompt``; turns that ``moved`` to another server.

    ``statuses``: of the answers that were not 200.
    """

    evaluated: int = 0
    prompt: int = 0
    moved: int = 0
    statuses: list[int] = field(default_factory=list)
    homes: dict[str, int] = field(default_factory=dict)

    @property
    def reuse(self) -> float:
        return 1 - self.evaluated / self.prompt if self.prompt else 0.0


class Sent(NamedTuple):
    """One recorded request as it is sent: for one token, unstreamed. ``key``: of its root."""

    key: str
    headers: dict[str, str]
    target: str
    body: bytes


def sent_of(names: Iterable[str]) -> list[Sent]:
    """Return the requests of these captures; the captures take turns."""
    packages = Packages().load()
    lists: list[list[Sent]] = []
    for name in names:
        (file,) = find_captures(f"{name}.jsonl", __file__)
        lists.append([])
        for request in load_capture(file):
            apis = APIS.get(request.dialect or "", ())
            if request.method != "POST" or not apis:
                continue
            key = root_key(request, packages.session(request))
            body = json.dumps(body_for(apis[0], request) | {"model": MODEL}).encode()
            target = request.target if request.path == PATHS[apis[0]] else PATHS[apis[0]]
            headers = headers_of(request)
            kept = {name: headers[name] for name in headers if name.lower() not in _CREDENTIALS}
            lists[-1].append(Sent(key, kept, target, body))
    return [one for several in itertools.zip_longest(*lists) for one in several if one is not None]


def drive(
    sent: Iterable[Sent], fleet: Fleet, url_for: Callable[[str], str], api_key: str = "none"
) -> Tally:
    """Send ``sent`` one after another, each to the URL for its root key; return what it cost.

    ``api_key``: what the router asks for.
    """
    tally = Tally()
    fleet.worked()
    for key, headers, target, body in sent:
        site = Site(url_for(key), headers | {"Authorization": f"Bearer {api_key}"})
        answer = Exchange(Request("POST", target, (), body))
        send(site, answer.received, answer)
        if answer.status != 200:
            tally.statuses.append(answer.status)
        tally.prompt += answer.usage.prompt or 0
        for at, evaluated in fleet.worked().items():
            tally.evaluated += evaluated
            tally.moved += tally.homes.get(key, at) != at
            tally.homes[key] = at
    return tally
