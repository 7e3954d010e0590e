"""A model server that renders what it is asked with a chat template, as the scripted upstream."""

import json
import re
from collections.abc import Callable
from itertools import takewhile
from typing import Any

from tests.core.templates import RefusedError
from tests.proxy.harness import Peer, Received, Upstream, whole

PATHS = {
    "messages": "/v1/messages",
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "ollama": "/api/chat",
}
PAGE, TOKENIZE = "/apply-template", "/tokenize"
REFUSAL = {"error": {"code": 400, "message": "System message must be at the beginning."}}
_TOKEN = re.compile(r"<\|\w+\|>|\w+|\s+|[^\w\s]")


class ModelServer:
    """Serves ``apis``; ``pages``: what PAGE and TOKENIZE do, 404 where they are not named.

    ``reports``: whether it says how many tokens were reused. ``asked``: what came, in order.
    ``status``: its status pages, of which ``looked`` are those that were asked for.
    """

    def __init__(
        self,
        template: Callable[..., str],
        *,
        pages: dict[str, Any] | None = None,
        apis: tuple[str, ...] = tuple(PATHS),
        reports: bool = True,
        status: dict[str, Any] | None = None,
    ) -> None:
        self.template = template
        self.status = status or {}
        self.looked: list[str] = []
        self.pages = dict(pages or {})
        self.apis = apis
        self.reports = reports
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.raw: list[Received] = []
        self._seen: list[list[str]] = []

    def __call__(self, peer: Peer, received: Received) -> None:
        """Answer one request."""
        path = received.line.split()[1].decode().partition("?")[0]
        if received.line.startswith(b"GET"):
            self.looked.append(path)
            missing = {"error": {"message": "File Not Found"}}
            status = b"200 OK" if path in self.status else b"404 Not Found"
            self.send(peer, status, self.status.get(path, missing))
            return
        body = json.loads(received.body)
        self.asked.append((path, body))
        self.raw.append(received)
        if path in self.pages:
            self.pages[path](self, peer, received, body)
            return
        api = next((api for api, known in PATHS.items() if path == known), None)
        if api not in self.apis:
            self.send(peer, b"404 Not Found", {"error": {"message": "File Not Found"}})
        elif "messages" not in body and "input" not in body:
            self.send(peer, b"400 Bad Request", {"error": {"message": "no messages"}})
        else:
            self.answer(peer, api, body)

    def answer(self, peer: Peer, api: str, body: dict[str, Any]) -> None:
        """Evaluate a prompt."""
        try:
            tokens = _TOKEN.findall(self.template(said(api, body), body.get("tools")))
        except RefusedError:
            self.send(peer, b"400 Bad Request", REFUSAL)
            return
        reused = max((_shared(tokens, seen) for seen in self._seen), default=0)
        self._seen.append(tokens)
        found = answer_of(api, len(tokens), min(reused, len(tokens) - 1) if self.reports else None)
        if body.get("stream") and api == "messages":
            event = {"type": "message_start", "message": found}
            text = f"event: message_start\ndata: {json.dumps(event)}\n\n".encode()
            peer.send(whole(text, b"Content-Type: text/event-stream"))
        else:
            self.send(peer, b"200 OK", found)

    def show(self, peer: Peer, body: dict[str, Any], made: Callable[[str], Any]) -> None:
        """Send what is ``made`` of the prompt, if the template takes it."""
        kwargs = body.get("chat_template_kwargs", {})
        try:
            prompt = self.template(body["messages"], body.get("tools"), **kwargs)
        except RefusedError:
            self.send(peer, b"400 Bad Request", REFUSAL)
        else:
            self.send(peer, b"200 OK", made(prompt))

    def send(self, peer: Peer, status: bytes, value: Any) -> None:
        """Send a JSON answer."""
        body = json.dumps(value).encode()
        peer.send(whole(body, b"Content-Type: application/json", status=status))

    def paths(self) -> list[str]:
        """The paths that were asked since the last time."""
        found, self.asked = [path for path, _ in self.asked], []
        return found

    def bodies(self, path: str) -> list[dict[str, Any]]:
        """What was sent to ``path``."""
        return [body for asked, body in self.asked if asked == path]


def renders(server: ModelServer, peer: Peer, _: Received, body: dict[str, Any]) -> None:
    """llama-server's PAGE."""
    server.show(peer, body, lambda prompt: {"prompt": prompt})


def tokenizes(server: ModelServer, peer: Peer, _: Received, body: dict[str, Any]) -> None:
    """VLLM's TOKENIZE."""
    assert body["return_token_strs"] is True
    server.show(peer, body, lambda prompt: {"token_strs": _TOKEN.findall(prompt)})


def says(data: bytes) -> Callable[..., None]:
    """A page that answers these bytes."""
    return lambda _, peer, *__: peer.send(data)


def said(api: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages of a request in any API, their contents as texts."""
    head = body.get({"messages": "system", "responses": "instructions"}.get(api, ""))
    messages = body["input" if api == "responses" else "messages"]
    messages = [{"role": "system", "content": head}, *messages] if head else messages
    return [message | {"content": _text(message.get("content"))} for message in messages]


def answer_of(api: str, prompt: int, reused: int | None) -> dict[str, Any]:
    """An answer that says how many tokens the prompt had."""
    details = {} if reused is None else {"cached_tokens": reused}
    message = {"role": "assistant", "content": "hi"}
    if api == "chat":
        counts = {"prompt_tokens": prompt, "completion_tokens": 1, "prompt_tokens_details": details}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return {"id": "c", "model": "m", "choices": [choice], "usage": counts}
    if api == "responses":
        usage = {"input_tokens": prompt, "output_tokens": 1, "total_tokens": prompt + 1}
        return {"object": "response", "usage": usage | {"input_tokens_details": details}}
    if api == "ollama":
        return {"message": message, "prompt_eval_count": prompt}
    usage = {"input_tokens": prompt - (reused or 0), "output_tokens": 1}
    usage |= {} if reused is None else {"cache_read_input_tokens": reused}
    content = [{"type": "text", "text": "hi"}]
    return {"type": "message", "role": "assistant", "content": content, "usage": usage}


def put(upstream: Upstream, server: ModelServer) -> ModelServer:
    """Have ``upstream`` answer as ``server``."""
    upstream.reset(server)
    return server


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(block.get("text", "") for block in content or ())


def _shared(one: list[str], other: list[str]) -> int:
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
