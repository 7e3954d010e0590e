"""A server is asked once, and each way that it fails is told in a few words."""

import socket

import pytest

from cacheproxy.http_client import NoAnswerError, Site
from tests import transcript
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


def test_what_is_said_of_answers():
    transcript.holds("asking.txt", globals())
