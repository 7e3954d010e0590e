"""Packed requests are unpacked, edited, and sent on plain; to a remote upstream as they came."""

from __future__ import annotations

import gzip
import json
import zlib

import anthropic
import openai
import pytest

from cacheproxy.core.http1.content_coding import zstd

from .conftest import MOST_MIB, RULES
from .harness import Client, Proxy, Upstream, free_port, whole

pytestmark = pytest.mark.slow

MIB = 1 << 20
BODY = b'{"model":"m","system":"stamp=7","messages":[{"role":"user","content":"hi"}]}'
SENT = BODY.replace(b"stamp=7", b"stamp=0")
JSON = b"Content-Type: application/json"
BOM = b"\xef\xbb\xbf"
PATHS = ("/v1/messages", "/v1/chat/completions", "/api/chat")


def raw(data):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def large(size):
    return BODY.replace(b"hi", b"hi " * (size // 3))


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
    """With its own length, and without the header; large ones and those in chunks too."""
    field = b"Content-Encoding: " + said.encode()
    packed = CODINGS[said](BODY)
    connect().ask("/v1/messages", packed, field).answer()
    client = connect().ask("/v1/messages", None, field, b"Transfer-Encoding: chunked")
    client.chunk(packed[:9])
    client.chunk(packed[9:])
    client.send(b"0\r\n\r\n")
    client.answer()
    big = large(2 * MIB)
    connect().ask("/v1/messages", CODINGS[said](big), field).answer()
    for expected in (SENT, SENT, big.replace(b"stamp=7", b"stamp=0")):
        received = upstream.received()
        assert received.body == expected
        assert received.values(b"content-length") == [b"%d" % len(expected)]
        assert not received.values(b"content-encoding")


def test_turns_are_told_as_of_plain_ones(connect, upstream, proxy):
    """A value that is pinned by the first turn stays, however each turn is packed."""
    for coding in ("gzip", "identity", "zstd"):
        body = BODY.replace(b"stamp=7", b"stamp=7 id=" + coding.encode())
        fields = (b"Content-Encoding: " + coding.encode(), b"X-Session-Id: packed")
        connect().ask("/v1/messages", CODINGS[coding](body), *fields).answer()
        assert json.loads(upstream.received().body)["system"] == "stamp=0 id=gzip"


def test_a_byte_order_mark_is_taken_away(connect, upstream):
    """It is no part of the JSON; packed or not."""
    connect().ask("/v1/messages", BOM + BODY).answer()
    field = b"Content-Encoding: gzip"
    connect().ask("/v1/messages", gzip.compress(BOM + BODY), field).answer()
    assert [upstream.received().body for _ in range(2)] == [SENT, SENT]


@pytest.mark.parametrize("target", ["/elsewhere", "/v1/embeddings"])
def test_other_paths_pass_as_they_came(connect, upstream, target):
    """Whatever is in them is nobody's prompt."""
    packed = gzip.compress(BODY)
    for body, fields in ((packed, (b"Content-Encoding: gzip",)), (BOM + BODY, ())):
        connect().ask(target, body, *fields).answer()
        received = upstream.received()
        assert received.body == body
        assert received.values(b"content-encoding") == [value[18:] for value in fields]


@pytest.mark.parametrize("said", [b"br", b"gzip, br", b"gzip, gzip, gzip, gzip, gzip"])
def test_what_is_not_known_passes_as_it_came(connect, upstream, proxy, said):
    """The upstream may know it. It is not edited, though it could be read."""
    connect().ask("/v1/messages", BODY, b"Content-Encoding: " + said).answer()
    received = upstream.received()
    assert received.body == BODY
    assert received.values(b"content-encoding") == [said]
    proxy.wait_for("it has a Content-Encoding that cacheproxy cannot unpack (logged once)")


def test_a_body_in_utf_16_passes_as_it_came(connect, upstream, proxy):
    """That is said once."""
    body = BODY.decode().encode("utf-16")
    for _ in range(2):
        connect().ask("/v1/messages", body).answer()
        assert upstream.received().body == body
    said = "/v1/messages forwarded unchanged: not UTF-8 (logged once)"
    proxy.wait_for(said)
    assert proxy.output.count(said) == 1


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
        answer = client.ask(path, broken, b"Content-Encoding: " + coding.encode()).answer()
        assert answer.status == 400
        said = message_of(path, answer)
        assert said.startswith("cacheproxy: the request body is not valid ")
        assert coding in said
    assert client.ask(path, BODY).answer().status == 200
    assert upstream.received().body == SENT
    assert upstream.requests.empty()


def test_one_that_is_too_large_is_refused(connect, upstream):
    """As a plain one is."""
    body = large(MOST_MIB * MIB)
    for path in PATHS:
        field = b"Content-Encoding: gzip"
        answer = connect().ask(path, gzip.compress(body, 1), field).answer()
        assert answer.status == 413
        assert message_of(path, answer) == (
            f"cacheproxy: the request body is larger than {MOST_MIB} MiB once it is unpacked"
        )
    assert upstream.requests.empty()


def pack(request):
    """Pack the body of an httpx request."""
    packed = gzip.compress(request.read())
    request.stream = type(request.stream)(packed)
    request.headers["Content-Encoding"] = "gzip"
    request.headers["Content-Length"] = str(len(packed))


def test_the_official_sdks_may_pack(respond, upstream, proxy):
    """Through a hook of their HTTP client."""
    hooks = {"event_hooks": {"request": [pack]}, "trust_env": False}
    said = [{"role": "user", "content": "stamp=7"}]
    respond(whole(b'{"type":"message","content":[],"choices":[]}', JSON))
    client = anthropic.Anthropic(
        api_key="none", base_url=proxy.url, http_client=anthropic.DefaultHttpxClient(**hooks)
    )
    assert client.messages.create(model="m", max_tokens=1, system="stamp=7", messages=said)
    other = openai.OpenAI(
        api_key="none", base_url=proxy.url + "/v1", http_client=openai.DefaultHttpxClient(**hooks)
    )
    assert other.chat.completions.create(model="m", messages=said)
    first, second = (json.loads(upstream.received().body) for _ in range(2))
    assert first["system"] == "stamp=0"
    assert first["messages"] == second["messages"] == said


@pytest.mark.parametrize("coding", [b"gzip", b"zstd"])
def test_a_packed_answer_is_counted_and_stays_packed(connect, respond, proxy, coding):
    """Its usage is read beside it."""
    usage = {"prompt_tokens": 13400, "prompt_tokens_details": {"cached_tokens": 400}}
    packed = CODINGS[coding.decode()](json.dumps({"choices": [], "usage": usage}).encode())
    respond(whole(packed, JSON, b"Content-Encoding: " + coding))
    mark = proxy.mark()
    answer = connect().ask("/v1/chat/completions", BODY).answer()
    assert (answer.body, answer.values(b"content-encoding")) == (packed, [coding])
    proxy.wait_for("13,400 tok", mark)


def prompt_at(upstream):
    """What ``upstream`` received, but for questions of the proxy's own."""
    while (received := upstream.received()).line.startswith(b"GET"):
        pass
    return received


def remote(folder, url, more=""):
    """A proxy whose upstream is remote."""
    table = (
        f'[[upstream]]\nname = "far"\nurl = "{url}"\nremote = true\nforward_credentials = true\n'
    )
    (folder / "config.toml").write_text(RULES + table + more)
    return Proxy(folder, "--config", "config.toml")


def test_a_remote_upstream_gets_it_as_it_came(tmp_path):
    """That is said once. What cannot be unpacked is its business."""
    upstream = Upstream()
    upstream.reset()
    with remote(tmp_path, upstream.url) as proxy:
        packed = zstd.compress(BODY)
        for body in (packed, packed, packed[:-1], BOM + BODY):
            fields = () if body[:3] == BOM else (b"Content-Encoding: zstd",)
            with Client(proxy.address) as client:
                assert client.ask("/v1/messages", body, *fields).answer().status == 200
            received = prompt_at(upstream)
            assert received.body == body
            assert received.values(b"content-encoding") == ([b"zstd"] if fields else [])
        assert proxy.output.count("a compressed request body (Content-Encoding) was") == 1
    upstream.close()


def test_a_remote_upstream_that_stands_in_gets_it_as_it_came(tmp_path):
    """Though it was unpacked for a local one, which is down; plain where it had to be edited."""
    upstream = Upstream()
    upstream.reset()
    down = f'[[upstream]]\nname = "near"\nurl = "http://127.0.0.1:{free_port()}"\n'
    with remote(tmp_path, upstream.url, 'fallback = true\nmodel = "other"\n' + down) as proxy:
        nameless = BODY.replace(b'"model":"m",', b"")
        other = BODY.replace(b'"m"', b'"other"')
        for body, sent in ((nameless, gzip.compress(nameless, mtime=0)), (BODY, other)):
            with Client(proxy.address) as client:
                packed = gzip.compress(body, mtime=0)
                answer = client.ask("/v1/messages", packed, b"Content-Encoding: gzip").answer()
                assert answer.status == 200
            received = prompt_at(upstream)
            assert received.body == sent
            assert received.values(b"content-encoding") == ([] if sent is other else [b"gzip"])
    upstream.close()
