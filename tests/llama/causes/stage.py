"""A server, a proxy as its users run it, and conversations that go through both."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import signal
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

from cacheproxy.child.process import ChildProxy as Proxy
from cacheproxy.core.conversation.usage import Usage, usage_of
from cacheproxy.core.conversation.verdict import Judgement

from . import reading
from .reading import Named
from .talk import Json, Talk

SECONDS = 300.0
PATIENCE = 60.0
"""Seconds to wait for what is done after an answer; a busy machine needs some."""


class Server(Protocol):
    """What a stage needs of a model server; ``kind``: how its memory can be gone back in."""

    name: str
    kind: str
    model: str

    @property
    def url(self) -> str: ...

    def restart(self, **settings: Any) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Readings:
    """What was named: live, by ``diagnose``, by ``diagnose --from``; ``line``: of the log."""

    live: Named
    diagnosed: Named | None
    captured: Named | None
    line: str
    texts: tuple[str, str]

    @property
    def agree(self) -> bool:
        """Whether all three say the same, as far as a log line says it."""
        one, two = self.diagnosed, self.captured
        if one is None or two is None:
            return False
        if one.judgement != Judgement.BREAK:  # where a turn that is fine parts may be shown or not
            return self.live.judgement == one.judgement == two.judgement
        said = (self.live.judgement, self.live.reason)
        return one == two and said == (one.judgement, one.reason)


class Stage:
    """A proxy before ``servers``: one, or two where it is to change over to the second.

    Whoever started the servers stops them.
    """

    def __init__(self, folder: Path, *servers: Server, options: tuple[str, ...] = ()) -> None:
        self.servers = servers
        self.captures = folder / "captures"
        self._config = folder / "config.toml"
        self._options = options
        self._numbers = itertools.count(1)
        self._stack = contextlib.ExitStack()
        self._folder = folder
        self._write(servers[0].url)
        self.proxy = self._proxy()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.proxy.close()

    @property
    def server(self) -> Any:
        """The server that is asked at first."""
        return self.servers[0]

    def begin(self, **fields: Any) -> Conversation:
        """Begin another conversation."""
        name = f"{next(self._numbers):03}c"
        return Conversation(self, name, Talk(name, self.server.model, **fields))

    def restart_proxy(self) -> None:
        """Stop the proxy and start another, which has forgotten all."""
        self.proxy.close()
        self.proxy = self._proxy()

    def change_over(self) -> None:
        """Have the running proxy ask the second server from now on."""
        self._write(self.servers[1].url)
        self.proxy.signal(signal.SIGHUP)
        self.until(lambda: "reloaded: upstream" in self.proxy.log())

    def page(self, path: str) -> Any:
        """One of the proxy's own pages."""
        with urllib.request.urlopen(f"{self.proxy.url}/_cacheproxy/{path}", timeout=60) as answer:
            return json.load(answer)

    def until(self, condition: Any) -> Any:
        """Wait for something that is true, and return it."""
        deadline = time.monotonic() + PATIENCE
        while not (found := condition()):
            if time.monotonic() > deadline:
                raise TimeoutError("it never came to be")
            time.sleep(0.02)
        return found

    def _write(self, upstream: str) -> None:
        self._config.write_text(f'upstream = "{upstream}"\n')

    def _proxy(self) -> Proxy:
        fixed = ("--config", str(self._config), "--capture", str(self.captures), "--poll", "10")
        # What a restart costs is to be seen.
        proxy = Proxy("", *fixed, "--keep-warm", "off", *self._options)
        self.until(lambda: "Ready." in proxy.log())  # it has looked at the server
        return proxy


class Conversation:
    """One conversation through the proxy; ``usages``: what the server said of each turn."""

    def __init__(self, stage: Stage, name: str, talk: Talk) -> None:
        self.stage = stage
        self.name = name
        self.talk = talk
        self.usages: list[Usage] = []
        self._said = 0

    def say(self, *ends: int) -> None:
        """Send a turn for each of ``ends``, each answered before the next."""
        for end in ends:
            status, answer = self.post(self.talk.body(end))
            if status != 200:
                raise RuntimeError(f"HTTP {status}: {answer[:500]!r}")
            self.usages.append(usage_of(json.loads(answer)))

    def post(self, body: Json, **headers: str) -> tuple[int, bytes]:
        """Send one request; return the status and the answer, and wait until it was logged."""
        asked = urllib.request.Request(
            f"{self.stage.proxy.url}/v1/chat/completions",
            json.dumps(body).encode(),
            {
                "Content-Type": "application/json",
                "User-Agent": "lab/1.0",
                "X-Session-Id": self.name,
                **headers,
            },
        )
        before = self._logged()
        try:
            with urllib.request.urlopen(asked, timeout=SECONDS) as answer:
                found = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                found = error.code, error.read()
        self.stage.until(lambda: self._logged() > before)
        return found

    def read(self) -> Readings:
        """Return what is named as the cause of the last turn."""
        label = f"lab/{self.name}"
        rows = self.stage.page("exchanges")["exchanges"]
        number = max(one["number"] for one in rows if one["session"] == self.name and one["turn"])
        named, line = reading.from_log(self.stage.proxy.log(), label)
        live, words = reading.live(self.stage.proxy.url, number)
        captured, again = self.stage.until(
            lambda: (found := reading.captured(self.stage.captures, number))[0] and found
        )
        return Readings(named, live, captured, line, (words, again))

    def _logged(self) -> int:
        return len(re.findall(rf" lab/{self.name}(?:\+\d+)? ", self.stage.proxy.log()))
