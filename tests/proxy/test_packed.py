"""Packed requests are unpacked, edited, and sent on plain; to a remote upstream as they came."""

import gzip
import json
import zlib
from contextlib import contextmanager
from threading import Event

import pytest

from cacheproxy.core.http1.content_coding import zstd

from .conftest import MOST_MIB, RULES
from .harness import TIMEOUT, Client, Proxy, free_port, sound_upstream, whole

pytestmark = pytest.mark.slow

MIB = 1 << 20
BODY = b'{"model":"m","system":"stamp=7","messages":[{"role":"user","content":"hi"}]}'
JSON = b"Content-Type: application/json"
BOM = b"\xef\xbb\xbf"
PATHS = ("/v1/messages", "/v1/chat/completions", "/api/chat")


def raw(data):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def large(size):
    return BODY.replace(b"hi", b"hi " * (size // 3))


def edited(body):
    """What the upstream gets of ``body``."""
    return body.removeprefix(BOM).replace(b"stamp=7", b"stamp=0")


def coded(name):
    return b"Content-Encoding: " + name.encode()


CODINGS = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "Deflate": raw,
    "zstd": zstd.compress,
    "gzip, gzip": lambda data: gzip.compress(gzip.compress(data)),
    "zstd, identity, gzip": lambda data: gzip.compress(zstd.compress(data)),
    "identity": bytes,
}


@pytest.mark.parametrize("said", CODINGS)
def test_it_is_edited_and_goes_on_plain(connect, upstream, said):
    """With its own length, and without the header; large ones and those in chunks too.

    A byte order mark is no part of the JSON.
    """
    for body in (BODY, BOM + BODY, large(2 * MIB)):
        packed = CODINGS[said](body)
        connect().ask("/v1/messages", packed, coded(said)).answer()
        client = connect().ask("/v1/messages", None, coded(said), b"Transfer-Encoding: chunked")
        client.chunk(packed[:9])
        client.chunk(packed[9:])
        client.send(b"0\r\n\r\n")
        client.answer()
        for _ in range(2):
            received = upstream.received()
            assert received.body == edited(body)
            assert received.values(b"content-length") == [b"%d" % len(edited(body))]
            assert not received.values(b"content-encoding")


def test_turns_are_told_as_of_plain_ones(connect, upstream):
    """A value that is pinned by the first turn stays, however each turn is packed."""
    for coding in ("gzip", "identity", "zstd"):
        body = BODY.replace(b"stamp=7", b"stamp=7 id=" + coding.encode())
        fields = (coded(coding), b"X-Session-Id: packed")
        connect().ask("/v1/messages", CODINGS[coding](body), *fields).answer()
        assert json.loads(upstream.received().body)["system"] == "stamp=0 id=gzip"


UNKNOWN = "it has a Content-Encoding that cacheproxy cannot unpack (logged once)"


@pytest.mark.parametrize(
    ("path", "body", "coding", "line"),
    [
        (
            "/elsewhere",
            gzip.compress(BODY, mtime=0),
            "gzip",
            None,
        ),  # whatever it is, nobody's prompt
        ("/v1/embeddings", gzip.compress(BODY, mtime=0), "gzip", None),
        ("/elsewhere", BOM + BODY, None, None),
        ("/v1/messages", BODY, "br", UNKNOWN),  # not edited, though it could be read
        ("/v1/messages", BODY, "gzip, br", UNKNOWN),
        ("/v1/messages", BODY, "gzip, gzip, gzip, gzip, gzip", UNKNOWN),
        ("/v1/messages", BODY.decode().encode("utf-16"), None, "not UTF-8 (logged once)"),
    ],
)
def test_what_is_no_prompt_or_not_known_passes_as_it_came(
    connect, upstream, proxy, *, path, body, coding, line
):
    """The upstream may know it. That is said once."""
    for _ in range(2):
        connect().ask(path, body, *([coded(coding)] if coding else [])).answer()
        received = upstream.received()
        assert received.body == body
        assert received.values(b"content-encoding") == ([coding.encode()] if coding else [])
    if line is not None:
        proxy.wait_for(line)
        assert proxy.output.count(line) == 1


def message_of(path, answer):
    """What an error of ``path``'s dialect says."""
    error = json.loads(answer.body)["error"]
    return error if path == "/api/chat" else error["message"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("coding", ["gzip", "deflate", "zstd"])
def test_what_is_broken_is_refused(connect, upstream, coding, path):
    """In the client's dialect; the connection is as good as before."""
    packed, client = CODINGS[coding](BODY), connect()
    for broken in (BODY, packed[:-1], packed[:9], packed + b"rest"):
        answer = client.ask(path, broken, coded(coding)).answer()
        assert answer.status == 400
        said = message_of(path, answer)
        assert said.startswith("cacheproxy: the request body is not valid ")
        assert coding in said
    assert client.ask(path, BODY).answer().status == 200
    assert upstream.received().body == edited(BODY)
    assert upstream.requests.empty()


def test_one_that_is_too_large_is_refused(connect, upstream):
    packed = gzip.compress(large(MOST_MIB * MIB), 1)
    said = f"cacheproxy: the request body is larger than {MOST_MIB} MiB once it is unpacked"
    for path in PATHS:
        answer = connect().ask(path, packed, coded("gzip")).answer()
        assert (answer.status, message_of(path, answer)) == (413, said)
    assert upstream.requests.empty()


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_a_packed_answer_is_counted_and_stays_packed(connect, respond, proxy, coding):
    usage = {"prompt_tokens": 13400, "prompt_tokens_details": {"cached_tokens": 400}}
    packed = CODINGS[coding](json.dumps({"choices": [], "usage": usage}).encode())
    respond(whole(packed, JSON, coded(coding)))
    mark = proxy.mark()
    answer = connect().ask("/v1/chat/completions", BODY).answer()
    assert (answer.body, answer.values(b"content-encoding")) == (packed, [coding.encode()])
    proxy.wait_for("13,400 tok", mark)


@contextmanager
def remote(folder, more=""):
    """A proxy whose upstream is remote, and what sends to it; it returns what it received."""
    with sound_upstream() as upstream:
        table = f'[[upstream]]\nname = "far"\nurl = "{upstream.url}"\nremote = true\n'
        (folder / "config.toml").write_text(f"{RULES}{table}forward_credentials = true\n{more}")
        with Proxy(folder, "--config", "config.toml") as proxy:

            def send(body, *fields):
                assert proxy.ask("/v1/messages", body, *fields).status == 200
                while (received := upstream.received()).line.startswith(b"GET"):
                    pass  # a question of the proxy's own
                return received.body, received.values(b"content-encoding")

            yield proxy, send


def test_a_remote_upstream_gets_it_as_it_came(tmp_path):
    """That is said once. What cannot be unpacked is its business."""
    packed = zstd.compress(BODY)
    with remote(tmp_path) as (proxy, send):
        for body in (packed, packed, packed[:-1]):
            assert send(body, coded("zstd")) == (body, [b"zstd"])
        assert send(BOM + BODY) == (BOM + BODY, [])
        proxy.mark()
        assert proxy.output.count("client: a compressed request body (Content-Encoding) was") == 1


def test_a_remote_upstream_that_stands_in_gets_it_as_it_came(tmp_path):
    """Though it was unpacked for a local one, which is down; plain where it had to be edited."""
    down = f'[[upstream]]\nname = "near"\nurl = "http://127.0.0.1:{free_port()}"\n'
    with remote(tmp_path, 'fallback = true\nmodel = "other"\n' + down) as (_, send):
        nameless = gzip.compress(BODY.replace(b'"model":"m",', b""))
        assert send(nameless, coded("gzip")) == (nameless, [b"gzip"])
        assert send(gzip.compress(BODY), coded("gzip")) == (BODY.replace(b'"m"', b'"other"'), [])


def test_what_is_unpacked_needs_room_too(tmp_path):
    """One that is small while it is packed waits behind a large one, if it does not stay small.

    Others pass it meanwhile. Its client may leave, and then it is not sent at all.
    """
    go_on = Event()

    def script(peer, received):
        if len(received.body) > MIB:
            go_on.wait(TIMEOUT)
        peer.send(whole(b"{}"))

    packed, fields = gzip.compress(large(3 * MIB)), (coded("gzip"), JSON)
    options = ("--bodies-in-flight", "2", "--upstream")
    with sound_upstream() as upstream, Proxy(tmp_path, *options, upstream.url) as proxy:
        upstream.reset(script)
        with Client(proxy.address) as first, Client(proxy.address) as second:
            first.ask("/v1/messages", large(2 * MIB), JSON)
            assert len(upstream.received().body) > MIB
            with Client(proxy.address) as leaver:
                leaver.ask("/v1/messages", packed, *fields)
                second.ask("/v1/messages", packed, *fields)
                for body in (BODY, gzip.compress(BODY)):
                    answer = proxy.ask("/v1/messages", body, *fields[body is BODY :])
                    assert answer.status == 200
                    assert upstream.received().body == BODY
            assert upstream.requests.empty()
            go_on.set()
            assert first.answer().status == 200
            assert upstream.received().body == large(3 * MIB)
            assert second.answer().status == 200
        assert upstream.requests.empty()
