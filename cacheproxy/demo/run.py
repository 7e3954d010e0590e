"""The two passes: the same requests directly and through the proxy, each from a cold cache."""

from __future__ import annotations

import json
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from cacheproxy.demo.chat import to_chat
from cacheproxy.demo.client import Client, Cost
from cacheproxy.demo.conversation import Conversation, marked
from cacheproxy.demo.proxy import ProxyService
from cacheproxy.embedded import LlamaServer, write_model

Api = Literal["chat", "messages"]

PATHS: dict[Api, str] = {"chat": "/v1/chat/completions", "messages": "/v1/messages"}

EMBEDDED_CONTEXT = 32_768
"""Tokens of the embedded server's context; the conversation has some 24,000."""

OnStep = Callable[[str, int], None]
"""Called with what is being done, and with how many requests were done since the last call."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is sent: the first ``turns`` requests of ``conversation``, in the shape of ``api``."""

    conversation: Conversation
    api: Api
    turns: int
    model: str | None = None
    api_key: str | None = None

    def asking_for(self, model: str) -> Plan:
        """Return the same plan for another model."""
        return replace(self, model=model)

    def bodies(self, mark: str | None) -> Iterator[dict[str, Any]]:
        """Yield the request bodies in order; ``mark`` as for ``conversation.marked``."""
        for number in range(1, self.turns + 1):
            body = self.conversation.body(number)
            body |= {"max_tokens": 1, "stream": False}
            if self.model is not None:
                body["model"] = self.model
            if mark is not None:
                body = marked(body, mark)
            yield to_chat(body) if self.api == "chat" else body

    def headers(self) -> dict[str, str]:
        """Return the headers of every request: Claude Code's own, or a gateway's."""
        headers = {"User-Agent": "cacheproxy-demo"}
        if self.api == "messages":
            headers = dict(self.conversation.headers)
        if self.api_key is not None:
            headers |= {"Authorization": f"Bearer {self.api_key}", "X-Api-Key": self.api_key}
        return headers

    def text(self) -> str:
        """Return about what the model will read, to learn its vocabulary from."""
        chat = to_chat(self.conversation.last)
        tools = [json.dumps(tool, ensure_ascii=False) for tool in chat["tools"]]
        return "\n".join([*(str(message["content"]) for message in chat["messages"]), *tools])


@dataclass(frozen=True, slots=True)
class Passes:
    """What each turn cost, in order."""

    direct: tuple[Cost, ...]
    through: tuple[Cost, ...]


def on_embedded(plan: Plan, progress: OnStep) -> Passes:
    """Run both passes on the embedded server, started anew for each.

    Raises EmbeddedUnavailable, StartFailedError or DemoError.
    """
    progress("writing a random model", 0)
    with tempfile.TemporaryDirectory(prefix="cacheproxy-demo-") as folder:
        model = write_model(Path(folder) / "random.gguf", text=plan.text())

        def server() -> LlamaServer:
            progress("starting the embedded llama.cpp", 0)
            return LlamaServer(model, n_ctx=EMBEDDED_CONTEXT)

        with server() as upstream:
            direct = _replay(plan, upstream.url, None, "directly", progress)
        with server() as upstream, _proxied(upstream.url, progress) as url:
            through = _replay(plan, url, None, "through cacheproxy", progress)
    return Passes(direct, through)


def on_upstream(plan: Plan, url: str, progress: OnStep, *, edit_remote: bool) -> Passes:
    """Run both passes on the user's own server, which cannot be started anew.

    Each pass, and each run, has a mark of its own at the start of its prompts, so that nothing
    evaluated before helps it. ``edit_remote`` as in the proxy's configuration. Raises DemoError.
    """
    direct = _replay(plan, url, _mark(), "directly", progress)
    with _proxied(url, progress, edit_remote=edit_remote) as proxied:
        through = _replay(plan, proxied, _mark(), "through cacheproxy", progress)
    return Passes(direct, through)


def _mark() -> str:
    return f"[cacheproxy demo {secrets.token_hex(8)}]"


@contextmanager
def _proxied(upstream: str, progress: OnStep, *, edit_remote: bool = False) -> Iterator[str]:
    """Start the proxy in front of ``upstream`` and yield its URL."""
    progress("starting the proxy", 0)
    with ProxyService(upstream, edit_remote=edit_remote) as proxy:
        yield proxy.url


def _replay(plan: Plan, url: str, mark: str | None, how: str, progress: OnStep) -> tuple[Cost, ...]:
    client = Client(url, plan.headers())
    costs: list[Cost] = []
    for number, body in enumerate(plan.bodies(mark), start=1):
        progress(f"turn {number} of {plan.turns} {how}", int(number > 1))
        costs.append(client.post(PATHS[plan.api], body))
    progress(f"done {how}", 1)
    return tuple(costs)
