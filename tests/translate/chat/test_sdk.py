"""The official OpenAI SDK, over a real socket, puts together what the transforms make."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

pytest.importorskip("openai")

import openai

from cacheproxy.core.prompt.request import Request
from cacheproxy.translate.chat import ChatToMessages
from cacheproxy.translate.chat.models import models

from .events import event, start, text
from .test_answer import message

ASKED = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
MODELS = b'{"data":[{"type":"model","id":"x","created_at":"2025-02-19T00:00:00Z"}]}'


@contextmanager
def client_of(status, *pieces):
    """A client whose requests are translated and answered by a server that says ``pieces``."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self):
            self.respond(200, "application/json", models(MODELS))

        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = [(k.encode(), v.encode()) for k, v in self.headers.items()]
            exchange = ChatToMessages(created=1234)
            asked = exchange.request(Request("POST", self.path, tuple(headers), body))
            assert asked.header("x-api-key") == "key"
            assert asked.target == "/v1/messages"
            if asked.json.get("stream") and status == 200:
                stream = exchange.stream()
                sent = b"".join([*(stream.feed(piece) for piece in pieces), stream.close()])
                self.respond(200, "text/event-stream", sent)
            else:
                answer = exchange.answer(status, b"".join(pieces))
                self.respond(answer.status, "application/json", answer.body)

        def respond(self, code, kind, sent):
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            with openai.DefaultHttpxClient(trust_env=False) as plain:
                yield openai.OpenAI(
                    base_url=f"http://127.0.0.1:{server.server_port}/v1",
                    api_key="key",
                    max_retries=0,
                    http_client=plain,
                )
        finally:
            server.shutdown()
            thread.join(10)


def test_counts_that_the_server_does_not_give_are_unknown_to_the_sdk():
    """Not 0: neither the tokens nor what was reused of them."""
    said = message({"type": "text", "text": "Hello"}) | {"usage": {}}
    with client_of(200, json.dumps(said).encode()) as client:
        assert client.chat.completions.create(**ASKED).usage is None
    said["usage"] = {"input_tokens": 9, "output_tokens": 2}
    with client_of(200, json.dumps(said).encode()) as client:
        usage = client.chat.completions.create(**ASKED).usage
    assert (usage.prompt_tokens, usage.prompt_tokens_details) == (9, None)
    ended = event("message_delta", delta={"stop_reason": "end_turn"})
    pieces = [start(usage={}), text(0, "Hello"), ended, event("message_stop")]
    options = {"include_usage": True}
    with (
        client_of(200, *pieces) as client,
        client.chat.completions.stream(**ASKED, stream_options=options) as stream,
    ):
        assert stream.get_final_completion().usage is None


def test_a_prompt_that_does_not_fit_has_its_code():
    """The one clients ask for."""
    body = b'{"type":"error","error":{"message":"prompt is too long: 9 tokens > 8 maximum"}}'
    with client_of(400, body) as client, pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(**ASKED)
    assert caught.value.code == "context_length_exceeded"
