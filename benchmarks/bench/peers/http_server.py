"""The proxy of the standard library alone: ThreadingHTTPServer, http.client and a regex.

A thread per client connection, each with one upstream connection that it keeps. Bodies need a
Content-Length (http.server does not decode chunked ones: 411). A client that leaves is noticed with
the next chunk, not before. Run: http_server.py PORT UPSTREAM
"""

import re
import sys
from http.client import HTTPConnection, HTTPException, HTTPResponse, IncompleteRead
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BILLING = re.compile(rb'x-anthropic-billing-header:[^"]*?cch=[0-9a-f]+;')
CONSTANT = b"x-anthropic-billing-header: cc_version=0; cc_entrypoint=cli; cch=00000;"
HOP = {
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
}
READ = 65536
UPSTREAM_SECONDS = 600


class Proxy(BaseHTTPRequestHandler):
    """One client connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self):
        super().setup()
        port = int(sys.argv[2])
        self.upstream = HTTPConnection("127.0.0.1", port, timeout=UPSTREAM_SECONDS)

    def finish(self):
        self.upstream.close()
        super().finish()

    def forward(self):
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            self.close_connection = True
            self.send_error(411)
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = BILLING.sub(CONSTANT, body, count=1)
        try:
            response = self.ask(body)
        except (OSError, HTTPException):
            self.upstream.close()
            self.send_error(502)
            return
        try:
            self.answer(response)
        except (OSError, HTTPException):  # either side left in mid-answer: not a whole one
            self.close_connection = True
            self.upstream.close()

    def ask(self, body: bytes) -> HTTPResponse:
        self.upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in HOP and name.lower() != "content-length":
                self.upstream.putheader(name, value)
        if body or "Content-Length" in self.headers:
            self.upstream.putheader("Content-Length", str(len(body)))
        self.upstream.endheaders(body)
        return self.upstream.getresponse()

    def answer(self, response: HTTPResponse) -> None:
        self.send_response_only(response.status, response.reason)
        for name, value in response.getheaders():
            if name.lower() not in HOP:
                self.send_header(name, value)
        if chunked := response.chunked:
            self.send_header("Transfer-Encoding", "chunked")
        elif response.length is None:
            self.send_header("Connection", "close")
        self.end_headers()
        while data := response.read1(READ):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data) if chunked else data)
        if chunked:
            self.wfile.write(b"0\r\n\r\n")
        elif response.length:
            raise IncompleteRead(b"", response.length)
        response.close()  # read1() does not at the end, and the connection must know

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_OPTIONS = do_PATCH = forward  # noqa: N815

    def log_message(self, format, *args):  # noqa: A002 - its own name
        """Keep no access log."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024  # its default of 5 drops connections that come at once


if __name__ == "__main__":
    Server(("127.0.0.1", int(sys.argv[1])), Proxy).serve_forever()
