"""The official Anthropic SDK, over a real socket, puts together what the transforms make."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

pytest.importorskip("anthropic")

import anthropic

from cacheproxy.core.prompt.request import Request
from cacheproxy.translate.messages import MessagesToChat

from .chunks import DONE, chunk
from .test_answer import completion

ASKED = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}


@contextmanager
def client_of(status, *pieces):
    """A client whose requests are translated and answered by a server that says ``pieces``."""

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = [(k.encode(), v.encode()) for k, v in self.headers.items()]
            exchange = MessagesToChat()
            asked = exchange.request(Request("POST", self.path, tuple(headers), body))
            assert asked.header("authorization") == "Bearer key"
            if asked.json.get("stream") and status == 200:
                stream = exchange.stream()
                sent = b"".join([*(stream.feed(piece) for piece in pieces), stream.close()])
                kind = "text/event-stream"
                self.send_response(200)
            else:
                answer = exchange.answer(status, b"".join(pieces))
                sent, kind = answer.body, "application/json"
                self.send_response(answer.status)
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
            with anthropic.DefaultHttpxClient(trust_env=False) as plain:
                yield anthropic.Anthropic(
                    base_url=f"http://127.0.0.1:{server.server_port}",
                    api_key="key",
                    max_retries=0,
                    http_client=plain,
                )
        finally:
            server.shutdown()
            thread.join(10)


@pytest.mark.parametrize("streams", [False, True])
def test_counts_that_the_server_does_not_give_are_unknown_to_the_sdk(streams):
    """Not 0: nobody knows what was reused."""
    if streams:
        pieces = [chunk({"content": "a"}), chunk({}, "stop", usage={"prompt_tokens": 9}), DONE]
        with client_of(200, *pieces) as client, client.messages.stream(**ASKED) as stream:
            said = stream.get_final_message().usage
    else:
        body = json.dumps(completion({"content": "a"}, usage={"prompt_tokens": 9})).encode()
        with client_of(200, body) as client:
            said = client.messages.create(**ASKED).usage
    assert (said.input_tokens, said.output_tokens) == (9, 0)
    assert (said.cache_read_input_tokens, said.cache_creation_input_tokens) == (None, None)
