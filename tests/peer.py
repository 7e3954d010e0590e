"""A server of a few lines that answers what it is told, for all that a good one never does."""

import json
import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NO_USAGE = {"choices": [{"message": {"role": "assistant", "content": "hi"}}]}
NOT_REUSED = NO_USAGE | {"usage": {"prompt_tokens": 100, "completion_tokens": 1}}
NOBODY = "http://127.0.0.1:9"
"""Where nobody listens: port 9 of loopback is closed everywhere."""
_MISSING = (404, {"error": {"message": "File Not Found"}})


class Peer:
    """An HTTP server that answers with JSON; ``pages``: path to a value, or to (status, value).

    A value may be bytes, which are sent as they are, or a function of the request's JSON that
    returns one. ``posts``: the value for every other POST. ``cut``: half of each body is sent.
    ``asked`` are the paths in the order they were asked for.
    """

    def __init__(self, pages=(), posts=_MISSING, *, cut=False):
        self.pages, self.asked = dict(pages), []
        peer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                came = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                peer.asked.append(self.path)
                other = posts if self.command == "POST" else _MISSING
                answer = peer.pages.get(self.path, other)
                if callable(answer):
                    answer = answer(json.loads(came or b"null"))
                status, value = answer if isinstance(answer, tuple) else (200, answer)
                body = value if isinstance(value, bytes) else json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: len(body) // 2] if cut else body)

            do_POST = do_GET  # noqa: N815 (http.server's own name)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def speaking(data):
    """Something on a port that is no HTTP server; says ``data`` and hangs up. Yields its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(data)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join()
