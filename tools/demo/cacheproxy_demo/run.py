"""The demo's scenes: a recorded conversation is sent to a server directly and through the proxy."""

from __future__ import annotations

import json
import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Literal

from cacheproxy.child.process import ChildProxy
from cacheproxy.core.prompt.request import Request
from cacheproxy.http_client import CommandError, Site
from cacheproxy.translate.translation import MessagesToChat
from cacheproxy_demo.client import Cost, DemoClient
from cacheproxy_demo.conversation import CCH, LATE, RecordedConversation, load, marked
from cacheproxy_demo.embedded import LlamaServer, write_model
from cacheproxy_demo.embedded.model import LateSystem, default_template

Api = Literal["chat", "messages"]

PATHS: dict[Api, str] = {"chat": "/v1/chat/completions", "messages": "/v1/messages"}

PLUGIN = "cacheproxy-claude-code"
"""Distribution with the rules for Claude Code's volatile header."""

EMBEDDED_CONTEXT = 32_768
"""Tokens of the embedded server's context; the longer conversation has some 24,000."""

OnStep = Callable[[str, int], None]
"""Callback for progress: the current activity, and the number of requests done since the last."""


def require_plugin() -> None:
    """Raise CommandError if the client package is missing: there would be no gain to show."""
    try:
        distribution(PLUGIN)
    except PackageNotFoundError:
        raise CommandError(
            "The plugin for Claude Code is not installed, so the proxy would change nothing: "
            "pip install ./clients/claude-code (in a checkout of cacheproxy)"
        ) from None


def to_chat(body: dict[str, Any]) -> dict[str, Any]:
    """Return the Chat Completions body that is equivalent to an Anthropic Messages body.

    The system blocks become one string, so the volatile header stays at its very head.
    """
    request = Request("POST", PATHS["messages"], (), json.dumps(body).encode())
    chat: dict[str, Any] = json.loads(MessagesToChat(request).sent.body)
    return chat


@dataclass(frozen=True, slots=True)
class Scene:
    """A conversation, and the effect that it shows."""

    what: str  #: the effect, in words
    conversation: RecordedConversation  #: conversation to send
    api: Api  #: preferred API; the other one is used if the server lacks it
    late_system: LateSystem = "inline"
    """Treatment of late system messages by the embedded server's template."""


def scenes(*, embedded: bool) -> list[Scene]:
    """Return the scenes for the embedded server, whose template we choose, or for another."""
    late, cch = load(LATE), load(CCH)
    old = Scene("another code at the start of each request", cch, "chat")
    if not embedded:
        return [Scene("another system message in each request", late, "messages"), old]
    return [
        Scene("the template refuses its system messages", late, "messages", "refused"),
        Scene("the template moves them to the front", late, "messages", "hoisted"),
        old,
    ]


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """The options with which each scene is sent."""

    turns: int  #: number of turns to send, from the first on
    model: str | None = None  #: model to request; None: the server's own
    api_key: str | None = None  #: key, if the server needs one

    def bodies(self, scene: Scene, api: Api, mark: str) -> Iterator[dict[str, Any]]:
        """Yield the request bodies in order; ``mark`` as for ``conversation.marked``."""
        for number in range(1, self.turns + 1):
            body = marked(scene.conversation.body(number), mark)
            body |= {"max_tokens": 1, "stream": False}
            if self.model is not None:
                body["model"] = self.model
            yield to_chat(body) if api == "chat" else body

    def headers(self, scene: Scene, api: Api) -> dict[str, str]:
        """Return the headers of every request: Claude Code's own, or a gateway's."""
        headers = {"User-Agent": "cacheproxy-demo"}
        if api == "messages":
            headers = dict(scene.conversation.headers)
        if self.api_key is not None:
            headers |= {"Authorization": f"Bearer {self.api_key}", "X-Api-Key": self.api_key}
        return headers


@dataclass(frozen=True, slots=True)
class DemoOutcome:
    """The costs of a scene's turns, in order, in both passes."""

    scene: Scene  #: scene that was played
    api: Api  #: API that was used
    direct: tuple[Cost, ...]  #: costs without the proxy
    through: tuple[Cost, ...]  #: costs with the proxy
    placement: Mapping[str, Any]
    """The server's treatment of late system messages, as the proxy's health page reports it."""


def on_embedded(plan: DemoPlan, played: list[Scene], progress: OnStep) -> list[DemoOutcome]:
    """Play the scenes on embedded servers, each with a template of its own.

    Raises CommandError: EmbeddedUnavailable if none can run here.
    """
    progress("writing a random model", 0)
    with tempfile.TemporaryDirectory(prefix="cacheproxy-demo-") as folder:
        model = write_model(Path(folder) / "random.gguf", text=text_of(played))
        outcomes = []
        for scene in played:
            progress("starting the embedded llama.cpp", 0)
            template = default_template(scene.late_system)
            with LlamaServer(model, n_ctx=EMBEDDED_CONTEXT, chat_template=template) as upstream:
                outcomes.append(_play(plan, scene, upstream.url, progress))
    return outcomes


def on_upstream(
    plan: DemoPlan, played: list[Scene], url: str, progress: OnStep, *, edit_remote: bool
) -> list[DemoOutcome]:
    """Play the scenes on the user's own server. ``edit_remote`` as in the proxy's configuration.

    Raises CommandError.
    """
    return [_play(plan, scene, url, progress, edit_remote=edit_remote) for scene in played]


def text_of(played: list[Scene]) -> str:
    """Return the texts of the scenes' prompts, from which the model's vocabulary is learnt."""
    texts: dict[str, None] = {}
    for scene in played:
        chat = to_chat(scene.conversation.last)
        texts |= dict.fromkeys(str(message["content"]) for message in chat["messages"])
        texts |= dict.fromkeys(json.dumps(tool, ensure_ascii=False) for tool in chat["tools"])
    return "\n".join(texts)


def _play(
    plan: DemoPlan, scene: Scene, url: str, progress: OnStep, *, edit_remote: bool = False
) -> DemoOutcome:
    """Send the scene's requests twice, directly and through the proxy, each time to a cold cache.

    Each pass has a mark of its own at the start of its prompts, so that nothing that the server
    evaluated before helps it.
    """
    api = scene.api
    if not DemoClient(url, plan.headers(scene, api)).serves(PATHS[api]):
        api = "chat" if api == "messages" else "messages"

    def replay(at: str, how: str) -> tuple[Cost, ...]:
        client = DemoClient(at, plan.headers(scene, api))
        mark = f"[cacheproxy demo {secrets.token_hex(8)}]"
        costs: list[Cost] = []
        for number, body in enumerate(plan.bodies(scene, api, mark), start=1):
            progress(f"turn {number} of {plan.turns} {how}", int(number > 1))
            costs.append(client.post(PATHS[api], body))
        progress(f"done {how}", 1)
        return tuple(costs)

    progress(f"{scene.conversation.client}: {scene.what}", 0)
    direct = replay(url, "directly")
    progress("starting the proxy", 0)
    with ChildProxy(url, *(["--edit-remote"] if edit_remote else [])) as proxy:
        through = replay(proxy.url, "through cacheproxy")
        health = Site(proxy.url).tell("/_cacheproxy/health") or {}
    return DemoOutcome(scene, api, direct, through, health.get("placement") or {})
