"""A model server, an agent and a proxy in a situation that doctor has to tell: real sockets."""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from cacheproxy.child.process import ChildProxy
from cacheproxy.http_client import Site
from tests.peer import Peer

CHAT = "/v1/chat/completions"
AGENT = {"User-Agent": "opencode/1.18", "X-Session-Id": "ses_3f9a"}
_WORDS = "the garden behind the old house is long and narrow with a wall of grey stone "


@dataclass
class Model:
    """The answers of a server that reuses what prompts share word by word."""

    most: int | None = None  #: tokens of a prompt that it reads, of longer ones the end
    status: int = 200  #: that it answers prompts with
    said: str = "out of memory"  #: what it says then
    seen: list = field(default_factory=list)

    def chat(self, asked):
        if self.status != 200:
            return self.status, {"error": {"message": self.said}}
        if not isinstance(asked.get("messages"), list):
            return 400, {"error": {"message": "messages is missing"}}
        words = " ".join(message["content"] for message in asked["messages"]).split()
        words = words if self.most is None else words[-self.most :]
        shared = max((_alike(words, earlier) for earlier in self.seen), default=0)
        self.seen.append(words)
        reused = min(shared, len(words) - 1)
        details = {"cached_tokens": reused}
        usage = {"prompt_tokens": len(words), "completion_tokens": 3}
        said = {"role": "assistant", "content": "It is grey."}
        choices = [{"index": 0, "message": said, "finish_reason": "stop"}]
        answer = {"id": "c", "object": "chat.completion", "model": "m", "choices": choices}
        return answer | {"usage": usage | {"prompt_tokens_details": details}}

    @property
    def pages(self):
        return {CHAT: self.chat, "/v1/models": {"data": [{"id": "m"}]}}


def _alike(words, others):
    pairs = zip(words, others, strict=False)
    return next((n for n, (one, other) in enumerate(pairs) if one != other), len(words))


def ask(url, body, headers=AGENT):
    """POST ``body`` to the chat's path; return the status."""
    return Site(url, headers).post(CHAT, json.dumps(body).encode(), 60).status


def converse(url, turns, headers=AGENT, *, breaks=False):
    """Have a conversation of about 1,000 tokens and 150 more a turn; return the statuses.

    ``breaks``: its system text changes with every second turn.
    """
    messages = [{"role": "system", "content": _WORDS * 70}]
    statuses = []
    for number in range(turns):
        if breaks:
            messages[0]["content"] = f"Branch: {'abcdefghi'[number // 2]}. {_WORDS * 70}"
        messages.append({"role": "user", "content": f"{number} {_WORDS * 10}"})
        statuses.append(ask(url, {"model": "m", "max_tokens": 3, "messages": messages}, headers))
        messages.append({"role": "assistant", "content": "It is grey."})
    return statuses


def malformed(url):
    """Try the API by hand, and get it wrong."""
    return ask(url, {"model": "m"}, {"User-Agent": "curl/8.5.0"})


@contextmanager
def hung():
    """A server that accepts connections and never answers; yields its URL."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


SITUATIONS = {
    "works": Model(),
    "breaks half the time": Model(),
    "cuts": Model(most=1_500),
    "refuses": Model(status=500),
    "hung": None,
    "one malformed": Model(),
    "one of two down": Model(),
    "no proxy": Model(),
}
"""By name, the model server in it."""


@contextmanager
def situation(name, *, turns=9):
    """Yield the URLs of the proxy and of the model server in the situation called ``name``."""
    with ExitStack() as stack:
        model = SITUATIONS[name]
        server = stack.enter_context(
            hung() if model is None else Peer(replace(model, seen=[]).pages)
        )
        server = getattr(server, "url", server)
        if name == "no proxy":
            yield free_url(), server
            return
        if name == "one of two down":
            config = Path(stack.enter_context(TemporaryDirectory())) / "config.toml"
            named = {"big": free_url(), "small": server}
            rows = (f'[[upstream]]\nname = "{one}"\nurl = "{url}"\n' for one, url in named.items())
            config.write_text("".join(rows))
            proxy = stack.enter_context(ChildProxy("", "--config", str(config))).url
        else:
            proxy = stack.enter_context(ChildProxy(server)).url
        if name == "one malformed":
            assert malformed(proxy) == 400
        if name != "hung":
            converse(proxy, turns, breaks=name == "breaks half the time")
        yield proxy, server


def free_url():
    """A URL at which nobody listens yet."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"http://127.0.0.1:{free.getsockname()[1]}"
