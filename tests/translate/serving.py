"""A server on a real socket that answers clients of Messages as a chat server's translation."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cacheproxy.core.prompt.request import Request
from cacheproxy.translate.translation import MessagesToChat

from .streams import through


@contextmanager
def served(status, pieces, key):
    """Answer each POST with ``pieces``, translated; yield the server's URL.

    ``key``: (header, value) that each translated request must have.
    """

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = [(k.encode(), v.encode()) for k, v in self.headers.items()]
            exchange = MessagesToChat(Request("POST", self.path, tuple(headers), body))
            asked = exchange.sent
            assert asked.header(key[0]) == key[1]
            code, kind = status, "text/event-stream"
            if asked.json.get("stream") and status == 200:
                sent = through(exchange.stream(), pieces)
            else:
                answer = exchange.answer(status, b"".join(pieces))
                code, kind, sent = answer.status, "application/json", answer.body
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
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join(10)
