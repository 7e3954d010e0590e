"""A server is asked once, and each way that it fails is told in a few words."""

from __future__ import annotations

import json
import socket

import pytest

from cacheproxy.asking import (
    Answer,
    CommandError,
    NoAnswerError,
    Site,
    checked_url,
    explain,
    is_same,
    refused,
    shown,
    with_proxy,
)
from tests.peer import NOBODY, NOT_REUSED, Peer, speaking


def reason(url, **more):
    with pytest.raises(NoAnswerError) as caught:
        Site(url).get("/", **more)
    return str(caught.value)


def test_nobody_there():
    assert reason(NOBODY) == "Connection refused"
    assert reason("http://nowhere.invalid")
    assert reason("http://127.0.0.1:99999")


@pytest.mark.parametrize(
    ("data", "words"), [(b"SSH-2.0-OpenSSH_9.2\r\n", "not HTTP"), (b"", "closed without an answer")]
)
def test_somebody_who_does_not_speak_http(data, words):
    with speaking(data) as url:
        assert words in reason(url)


def test_somebody_who_says_nothing():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        assert reason(url, seconds=0.01) == "no answer in time"


def test_a_server_without_tls():
    """Whoever writes https by mistake reads it in the reason."""
    with speaking(b"HTTP/1.1 400 Bad Request\r\n\r\n") as url:
        assert reason(url.replace("http:", "https:")).endswith("http instead of https?)")


def test_an_answer_that_is_cut_short():
    with Peer({"/": NOT_REUSED}, cut=True) as peer:
        assert reason(peer.url) == "the answer was cut short"


def test_questions_that_are_extras_never_fail():
    assert Site(NOBODY).tell("/props") is None
    with Peer({"/page": b"["}, posts=NOT_REUSED) as peer:
        assert Site(peer.url).tell("/props") is None
        assert Site(peer.url).tell("/page") is None
        assert Site(peer.url).tell("/tokenize", {}) == NOT_REUSED


@pytest.mark.parametrize(
    ("status", "body", "advice"),
    [
        (
            404,
            {"error": {"message": "File Not Found"}},
            ("check that --upstream is the server's root"),
        ),
        (404, {"error": {"message": 'model "m" not found'}}, "--model"),
        (400, {"error": "model is required"}, "--model"),
        (400, {"error": {"message": "exceeds the available context size"}}, "larger context"),
        (401, {"type": "error", "error": {"message": "invalid x-api-key"}}, "--api-key"),
        (503, {"error": {"message": "Loading\n model \x1b[1m"}}, "(Loading model [1m): the server"),
        (500, ["odd"], "answered 500: look in the server's log"),
    ],
)
def test_each_status_has_its_advice(status, body, advice):
    answer = Answer(status, json.dumps(body).encode())
    line = explain(answer, "http://x/v1/messages", "m", "--upstream")
    assert f"http://x/v1/messages answered {status}" in line
    assert advice in line
    assert line.isprintable()


def test_an_error_that_is_a_page_is_not_quoted():
    page = Answer(502, b"<html>\n<body>Bad Gateway")
    assert "<html>" not in explain(page, "http://x", "m", "--upstream")


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
    with pytest.raises(CommandError, match="http://localhost:8080"):
        checked_url(text)


def test_urls_are_shown_without_secrets_and_compared_by_where_they_lead():
    assert shown("http://me:SECRET@[::1]:8080/base/?key=SECRET") == "http://[::1]:8080/base"
    assert is_same("http://localhost", "http://127.0.0.1:80/")
    assert not is_same("http://localhost:1", "https://localhost:2")
    assert not is_same("http://[", "http://localhost")


@pytest.mark.parametrize(
    ("status", "error", "says"),
    [
        (401, "x", "http://h asks for its token"),
        (403, "on this machine only", "on this machine only"),
        (409, "not read", "not read"),
        (421, {"message": "cacheproxy: add --allow-host h"}, "add --allow-host h"),
        (404, "there is no such page", "is not a cacheproxy of this version (HTTP 404)"),
        (404, {"message": "Not Found"}, "is not a cacheproxy of this version (HTTP 404)"),
        (503, {"message": "Loading model"}, "is not a cacheproxy of this version (HTTP 503)"),
        (500, "an internal error", "is not a cacheproxy of this version (HTTP 500)"),
    ],
)
def test_why_the_proxy_shows_no_page(status, error, says):
    """In its own words; what others say is not for its users."""
    assert says in refused(Answer(status, json.dumps({"error": error}).encode()), "http://h")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("cacheproxy diagnose 7   says why", "cacheproxy diagnose 7 {}   says why"),
        ("cacheproxy diagnose 7 --propose", "cacheproxy diagnose 7 --propose {}"),
        ("cacheproxy doctor --send", "cacheproxy doctor --send {}"),
        ('eval "$(cacheproxy env claude)"', 'eval "$(cacheproxy env claude {})"'),
        ("cacheproxy diagnose --propose --from a", None),
        ("cacheproxy inspect a", None),
    ],
)
def test_commands_name_a_proxy_that_they_would_not_find(text, named):
    """So that they can be copied; those that ask no proxy stay."""
    elsewhere = "http://127.0.0.1:9000"
    assert with_proxy(text, elsewhere) == (named or text).format(f"--proxy {elsewhere}")
    assert with_proxy(with_proxy(text, elsewhere), elsewhere) == with_proxy(text, elsewhere)
    assert with_proxy(text, "http://localhost:8081") == text
