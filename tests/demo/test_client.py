"""Every way a server can fail is one line that says what to do."""

import json
import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from cacheproxy.demo.client import Client, checked_url, explain
from cacheproxy.demo.errors import DemoError


@contextmanager
def answering(status, body):
    """A server that gives everybody the same answer."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST  # noqa: N815 (the name http.server looks for)

        def log_message(self, *args):
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def speaking(data):
    """Something on a port that is no HTTP server; says ``data`` and hangs up."""
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


def post(url):
    return Client(url).post("/v1/chat/completions", {"model": "m", "messages": []})


def test_a_good_answer_has_the_servers_figures_and_the_wall_clock():
    usage = {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}}
    with answering(200, json.dumps({"usage": usage}).encode()) as url:
        cost = post(url)
    assert (cost.usage.prompt, cost.usage.reused, cost.usage.evaluated) == (9, 4, 5)
    assert 0 < cost.wall < 10


def test_nobody_there():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(DemoError, match="start the model server there"):
        post(url)


def test_no_such_host():
    with pytest.raises(DemoError, match=r"No answer from http://nowhere\.invalid"):
        post("http://nowhere.invalid")


@pytest.mark.parametrize("data", [b"SSH-2.0-OpenSSH_9.2\r\n", b""])
def test_somebody_who_does_not_speak_http(data):
    with speaking(data) as url, pytest.raises(DemoError) as caught:
        post(url)
    assert "\n" not in str(caught.value)


def test_something_that_is_no_json():
    with answering(200, b"<html>") as url, pytest.raises(DemoError, match="no JSON"):
        post(url)


@pytest.mark.parametrize(
    ("status", "body", "advice"),
    [
        (404, {"error": {"message": "File Not Found"}}, "root"),
        (404, {"error": {"message": 'model "m" not found'}}, "--model"),
        (400, {"error": "model is required"}, "--model"),
        (400, {"error": {"message": "exceeds the available context size"}}, "larger context"),
        (401, {"type": "error", "error": {"message": "invalid x-api-key"}}, "--api-key"),
        (503, {"error": {"message": "Loading model"}}, "not ready"),
        (500, ["odd"], "log"),
    ],
)
def test_each_status_has_its_advice(status, body, advice):
    line = explain(status, json.dumps(body).encode(), "http://x/v1/messages", "m")
    assert f"http://x/v1/messages answered {status}" in line
    assert advice in line
    assert "\n" not in line


def test_an_error_that_is_a_page_is_not_quoted():
    assert "<html>" not in explain(502, b"<html>\n<body>Bad Gateway", "http://x", "m")


def test_a_refusal_of_late_system_messages_is_an_answer():
    said = {"error": {"message": "Jinja Exception: System message must be at the beginning."}}
    with answering(400, json.dumps(said).encode()) as url:
        assert post(url).refused == 400


def test_an_api_is_served_or_not():
    with answering(404, b"{}") as url:
        assert not Client(url).serves("/v1/messages")
    with answering(400, b"{}") as url:
        assert Client(url).serves("/v1/messages")


def test_models_are_listed_or_not_known():
    with answering(200, b'{"data": [{"id": "a"}, {"id": "b"}]}') as url:
        assert Client(url).models() == ["a", "b"]
    with answering(200, b'{"models": 1}') as url:
        assert Client(url).models() == []
    with answering(404, b"") as url:
        assert Client(url).models() == []


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("http://localhost:8080", "http://localhost:8080"),
        ("http://localhost:8080/", "http://localhost:8080"),
        ("http://localhost:1234/v1/", "http://localhost:1234"),
        ("https://host/base/v1", "https://host/base"),
        ("localhost:8080", "http://localhost:8080"),
    ],
)
def test_a_url_is_taken_as_people_write_it(given, used):
    assert checked_url(given) == used


@pytest.mark.parametrize("text", ["localhost", "ftp://x", "http://", "http://x:port", ""])
def test_what_is_no_url_is_refused(text):
    with pytest.raises(DemoError, match="http://localhost:8080"):
        checked_url(text)
