"""A front of a model server that has its APIs, and no page that tells anything."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from cacheproxy.asking import Site


class Blind:
    """A running front of ``server``; ``url``: where it listens; ``posts``: how many it handed on.

    It stands for a server that only refuses: llama-server itself says what it would render.
    """

    def __init__(self, server: str) -> None:
        self.posts = 0
        self._site = Site(server)
        blind = self

        class Front(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._send(404, b"{}")

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if not self.path.startswith("/v1/"):
                    self._send(404, b"{}")
                    return
                blind.posts += 1
                answer = blind._site.post(self.path, body)
                self._send(answer.status, answer.body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

            def _send(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._front = ThreadingHTTPServer(("127.0.0.1", 0), Front)
        self._front.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._front.server_address[1]}"
        self._thread = threading.Thread(target=self._front.serve_forever, args=(0.05,))
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._front.shutdown()
        self._thread.join()
        self._front.server_close()
