"""A scripted upstream for the official SDKs: the request's model says how it behaves.

``ok``, ``pauses`` (before every event), ``steps`` (the same, as long as a test wants), ``dies``
(RST within the stream), ``ends`` (cleanly, but before the last event), ``unframed`` (HTTP/1.0: the
end of the connection is the body's), ``cut`` (the same, before the last event), ``overloaded``
(529), ``hangs_up`` (before the head), ``endless``. A dash and a name may follow, so that requests
can be told apart.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Sequence

from tests.proxy.harness import CHUNKED, TIMEOUT, Peer, Received, Upstream, whole

PAUSE = 0.25
"""Seconds before each event of ``pauses``: more than the proxy waits before a ping."""
TEXTS = ("He", "llo", ", wörld")
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}

UNFRAMED = b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"

Event = tuple[str, object]


def messages(model: str) -> list[Event]:
    """The events of a stream of Anthropic's Messages API."""
    message = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [],
        "stop_reason": None, "stop_sequence": None,
        "usage": {"input_tokens": 7, "output_tokens": 1},
    }  # fmt: skip
    block = {"type": "text", "text": "", "citations": None}
    deltas = [{"type": "text_delta", "text": text} for text in TEXTS]
    end = {"stop_reason": "end_turn", "stop_sequence": None}
    bodies = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    ]
    return [(str(body["type"]), body) for body in bodies]


def chat(model: str) -> list[Event]:
    """The events of a stream of OpenAI's Chat Completions API."""

    def chunk(delta: object, reason: str | None = None) -> Event:
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        return "", {
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model,
            "choices": [choice],
        }  # fmt: skip

    return [
        chunk({"role": "assistant", "content": ""}),
        *(chunk({"content": text}) for text in TEXTS),
        chunk({}, "stop"),
        ("", "[DONE]"),
    ]


def responses(model: str) -> list[Event]:
    """The events of a stream of OpenAI's Responses API."""
    part = {"type": "output_text", "text": "".join(TEXTS), "annotations": []}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed"}
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}

    def response(status: str, output: Sequence[object] = ()) -> dict[str, object]:
        return {
            "id": "resp_1", "object": "response", "created_at": 1, "model": model, "status": status,
            "output": list(output), "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
        }  # fmt: skip

    begun, done = item | {"content": [], "status": "in_progress"}, item | {"content": [part]}
    bodies: list[dict[str, object]] = [
        {"type": "response.created", "response": response("in_progress")},
        {"type": "response.output_item.added", "output_index": 0, "item": begun},
        {"type": "response.content_part.added", **place, "part": part | {"text": ""}},
        *({"type": "response.output_text.delta", **place, "delta": text} for text in TEXTS),
        {"type": "response.output_text.done", **place, "text": part["text"]},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": done},
        {"type": "response.completed", "response": response("completed", [done])},
    ]
    return [
        (str(body["type"]), body | {"sequence_number": number, "logprobs": []})
        for number, body in enumerate(bodies)
    ]


STREAMS = {"/v1/messages": messages, "/v1/chat/completions": chat, "/v1/responses": responses}


def written(event: Event) -> bytes:
    name, body = event
    text = body if isinstance(body, str) else json.dumps(body)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


class Scripted(Upstream):
    """``asked`` counts the requests by model; ``left`` has the models whose client has left.

    ``step`` lets a stream of the model ``steps`` go on by one event.
    """

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()
        self.left: set[str] = set()
        self.step = threading.Semaphore(0)
        self._lock = threading.Lock()
        self.reset(self._answer)

    def _answer(self, peer: Peer, received: Received) -> None:
        path = received.line.split(b" ")[1].decode()
        if path not in STREAMS:  # the proxy wants to know what server this is
            peer.send(whole(b"{}", status=b"404 Not Found"))
            return
        model = json.loads(received.body).get("model")
        if model is None:  # it wants to know which APIs are served
            peer.send(whole(b"{}", status=b"400 Bad Request"))
            return
        with self._lock:
            self.asked[model] += 1
        behaviour = model.partition("-")[0]
        events = STREAMS[path](model)
        if behaviour == "hangs_up":
            return
        if behaviour == "overloaded":
            body = json.dumps(OVERLOADED).encode()
            fields = (b"Content-Type: application/json", b"Retry-After: 0.1")
            peer.send(whole(body, *fields, status=b"529 Overloaded"))
            return
        if behaviour in ("unframed", "cut"):
            peer.send(UNFRAMED)
            for event in events if behaviour == "unframed" else events[:4]:
                peer.send(written(event))
            return
        peer.send(CHUNKED)
        if behaviour == "endless":
            self._go_on(peer, model, events)
            return
        if behaviour in ("dies", "ends"):
            events = events[:4]
        for event in events:
            self._pause(behaviour)
            peer.chunk(written(event))
        if behaviour == "dies":
            time.sleep(0.1)  # else the reset would overtake the data
            peer.reset()
            return
        self._pause(behaviour)
        peer.send(b"0\r\n\r\n")

    def _pause(self, behaviour: str) -> None:
        if behaviour == "pauses":
            time.sleep(PAUSE)
        elif behaviour == "steps":
            assert self.step.acquire(timeout=TIMEOUT)

    def _go_on(self, peer: Peer, model: str, events: list[Event]) -> None:
        """Repeat the fourth event, a piece of text, until the proxy closes the connection."""
        try:
            for event in events[:3]:
                peer.chunk(written(event))
            while True:
                peer.chunk(written(events[3]))
                if peer.wait_closed(0.02):
                    break
        except OSError:
            pass
        self.left.add(model)
