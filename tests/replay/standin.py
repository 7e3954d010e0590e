"""A server of a few lines that answers what it is told, for all that a good one never does."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NO_USAGE = {"choices": [{"message": {"role": "assistant", "content": "hi"}}]}
NOT_REUSED = NO_USAGE | {"usage": {"prompt_tokens": 100, "completion_tokens": 1}}


@contextmanager
def answering(answer, status=200, cut=False, pause=lambda: None):
    """A server that gives every POST the same JSON after a ``pause``, all or half of it."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            pause()
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[: len(data) // 2] if cut else data)

        def do_GET(self):
            self.send_error(404)

        def log_message(self, *args):
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
