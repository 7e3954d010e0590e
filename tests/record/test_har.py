"""Captured exchanges as an HTTP Archive, and back."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from pathlib import Path

import pytest
from hypothesis import given

from cacheproxy.record.exchange import Exchange
from cacheproxy.record.files import read
from cacheproxy.record.har import from_har, to_har
from cacheproxy.record.jsonl import CapturedError
from tests.record.recorded import recorded
from tests.record.test_jsonl import SECRET, anything, exchange

SCHEMAS = Path(__file__).parents[1] / "fixtures" / "har-schema"


@pytest.fixture(scope="session")
def schema():
    """A check of a HAR against the JSON Schema of HAR 1.2."""
    jsonschema = pytest.importorskip("jsonschema")
    referencing = pytest.importorskip("referencing")
    found = {file.name: json.loads(file.read_text()) for file in SCHEMAS.glob("*.json")}
    registry = referencing.Registry().with_resources(
        (name, referencing.Resource.from_contents(one)) for name, one in found.items()
    )
    formats = jsonschema.Draft6Validator.FORMAT_CHECKER
    return jsonschema.Draft6Validator(
        found["har.json"], registry=registry, format_checker=formats
    ).validate


def archive(*records):
    """What a reader of our HAR file gets to see."""
    return json.loads(json.dumps(to_har(records, "0.1.0")))


def entry_of(record):
    return archive(record)["log"]["entries"][0]


def foreign(**changes):
    """An entry as the specification has it."""
    request = {
        "method": "POST",
        "url": f"https://me:{SECRET}@api.example:8443/v1/messages?beta=true&key={SECRET}",
        "cookies": [{"name": "sid", "value": SECRET}],
        "headers": [
            {"name": ":method", "value": "POST"},
            {"name": "authorization", "value": SECRET},
            {"name": "User-Agent", "value": "claude-cli/2.1"},
        ],
        "queryString": [{"name": "key", "value": SECRET}],
        "postData": {"mimeType": "application/json", "text": '{"model": "é"}'},
        "bodySize": 15,
    }
    response = {
        "status": 200,
        "headers": [
            {"name": "set-cookie", "value": SECRET},
            {"name": "content-encoding", "value": "br"},
            {"name": "content-type", "value": "application/json"},
        ],
        "content": {"size": 2, "mimeType": "application/json", "text": "{}"},
    }
    entry = {
        "startedDateTime": "2026-11-21T12:05:58.250+01:00",
        "time": 1500.5,
        "request": request | changes.pop("request", {}),
        "response": response | changes.pop("response", {}),
        "timings": {"blocked": 1, "dns": -1, "connect": 2, "send": 7, "wait": 990, "receive": 500},
    }
    return {"log": {"version": "1.2", "entries": [entry | changes]}}


@given(anything)
def test_an_export_is_har(schema, captured):
    """As the schema has it, whatever was captured."""
    entry = entry_of(captured)
    schema(archive(captured))
    assert entry["time"] >= 0
    assert all(value >= -1 for value in entry["timings"].values())


def test_recorded_traffic_is_exported_as_har(schema, captures):
    """All of it, and it comes back the same."""
    records, _ = read(captures)
    document = archive(*records)
    schema(document)
    assert list(from_har(document)) == records


@given(anything)
def test_our_own_archives_come_back_whole(captured):
    """What HAR has no word for stands in a field of our own."""
    if any(name.lower() == b"content-encoding" for name, _ in captured.response_headers):
        return
    found = [record for record in from_har(archive(captured)) if isinstance(record, Exchange)]
    if not any(
        name.startswith(b":") for name, _ in captured.received.headers + captured.response_headers
    ):
        assert found == [captured]


def test_an_entry():
    """Says in HAR's own words what it can, and the rest beside it."""
    entry = entry_of(exchange())
    assert SECRET not in json.dumps(entry)
    assert entry["startedDateTime"] == "2026-11-18T11:06:40.250000+00:00"
    assert entry["time"] == 13_400
    unknown = dict.fromkeys(("dns", "connect", "ssl"), -1)
    assert entry["timings"] == unknown | {"blocked": 2, "send": 0, "wait": 898, "receive": 12_500}
    assert entry["request"]["url"] == ("http://localhost:8080/v1/messages?beta=true&key=redacted")
    assert entry["request"]["queryString"] == [
        {"name": "beta", "value": "true"},
        {"name": "key", "value": "redacted"},
    ]
    assert entry["request"]["postData"] == {"mimeType": "", "text": '{"system": "cch=1;"}'}
    assert entry["response"]["statusText"] == "OK"
    assert entry["response"]["content"]["text"] == "data: {}\n\n"
    assert entry["response"]["bodySize"] == 4000
    ours = entry["_cacheproxy"]
    assert (ours["session"], ours["turn"]) == ("3f9a-1111", 14)
    assert ours["sent_body"] == '{"system": "cch=0;"}'
    assert ours["verdict"]["reason"] == "messages_changed"


@pytest.mark.parametrize(
    ("upstream", "target", "headers", "url"),
    [
        ("http://h:1/base/", "/x", (), "http://h:1/base/x"),
        ("", "/x", ((b"Host", b"h:1"),), "http://h:1/x"),
        ("", "/x", (), "http://localhost/x"),
        ("http://h", "*", (), "http://h/*"),
        ("http://h", "http://o/x?beta=1", (), "http://o/x?beta=1"),
        ("http://h", '/a b\xe9"?limit=%20', (), "http://h/a%20b%C3%A9%22?limit=redacted"),
    ],
)
def test_urls(upstream, target, headers, url):
    """Are absolute, and of the characters that a URL may have."""
    record = recorded("GET", target, headers, upstream=upstream)
    assert entry_of(record)["request"]["url"] == url


def test_an_exchange_that_failed():
    """Has the status 0, as browsers write it, and the reason."""
    response = entry_of(recorded("GET", "/", error="connection refused"))["response"]
    assert (response["status"], response["_error"]) == (0, "connection refused")
    assert "text" not in response["content"]


def bare_deflate(data):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(
    ("coding", "pack"),
    [
        ("gzip", gzip.compress),
        ("X-GZIP ", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", bare_deflate),
    ],
)
def test_packed_responses_are_unpacked(coding, pack):
    """HAR's text is what the page saw."""
    packed = pack(b"hello " * 100)
    headers = ((b"Content-Encoding", coding.encode()),)
    record = recorded("GET", "/", response_headers=headers, response_body=packed)
    content = entry_of(record)["response"]["content"]
    assert content["text"] == "hello " * 100
    assert content["compression"] == 600 - len(packed)
    (back,) = from_har(archive(record))
    assert (back.response_body, back.response_headers) == (b"hello " * 100, ())


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        (b"br", b"\x8b\x02\x80hello\x03"),
        (b"gzip", b"\x8bnot gzip"),
        (b"gzip, br", gzip.compress(b"x", mtime=0)),
        (b"gzip", gzip.compress(bytes(65 << 20), 1, mtime=0)),
    ],
)
def test_what_cannot_be_unpacked_stays_as_it_was(coding, body):
    """In base64; a bomb is left alone."""
    headers = ((b"content-encoding", coding),)
    content = entry_of(recorded("GET", "/", response_headers=headers, response_body=body))[
        "response"
    ]["content"]
    assert content["encoding"] == "base64"
    assert base64.b64decode(content["text"]) == body


def test_an_entry_of_another_program():
    """Is read without its credentials, its HTTP/2 pseudo-headers and its coding."""
    (record,) = from_har(foreign())
    assert SECRET not in repr(record)
    assert record.upstream == "https://api.example:8443"
    assert record.received.target == "/v1/messages?beta=true&key=redacted"
    shown = ((b"authorization", b"redacted"), (b"User-Agent", b"claude-cli/2.1"))
    assert record.received.headers == shown
    assert record.received.body == '{"model": "é"}'.encode()
    assert record.wall == 1_795_259_158.25
    assert (record.sent_after, record.head_after, record.seconds) == (0.01, 1.0, 1.5005)
    assert (record.status, record.response_body) == (200, b"{}")
    assert record.response_headers == (
        (b"set-cookie", b"redacted"),
        (b"content-type", b"application/json"),
    )
    assert record.session is None


@pytest.mark.parametrize(
    ("post", "body"),
    [
        ({"text": "e30=", "encoding": "base64"}, b"{}"),
        ({"text": "e30=", "_encoding": "base64"}, b"{}"),
        ({"text": "/w==", "encoding": "base64"}, b"\xff"),
        ({"text": "a\udcff"}, b"a\xff"),
        ({"text": "a\ud83d"}, b"a\xed\xa0\xbd"),
        ({"text": "", "params": []}, b""),
    ],
)
def test_bodies_of_other_programs(post, body):
    """Base64 under either name, and mitmproxy's halves of characters."""
    (record, *_) = from_har(foreign(request={"postData": {"mimeType": ""} | post}))
    assert record.received.body == body


def test_a_request_that_came_packed_is_read():
    """Its body is text in the archive, whatever its headers say of it."""
    headers = [{"name": "Content-Encoding", "value": "gzip"}]
    (record,) = from_har(foreign(request={"headers": headers}))
    assert record.received.json == {"model": "é"}


def test_what_mitmproxy_leaves_out():
    """No response, no times that it does not know, no text of an empty body."""
    (record, problem) = from_har(
        foreign(
            request={"postData": {"mimeType": "", "text": None, "params": []}, "bodySize": 0},
            response={"status": 0, "headers": [], "content": {}, "_error": f"{SECRET} refused"},
            timings={"connect": None, "ssl": None, "send": 0, "receive": 0, "wait": 0},
            time=0,
        )
    )
    assert problem.startswith("no request has its body")
    assert (record.status, record.error, record.response_body) == (None, "failed", None)
    assert (record.seconds, record.head_after) == (0.0, None)


def test_what_nobody_needs_may_be_missing():
    """A method and a URL make an exchange."""
    entry = {"request": {"method": "GET", "url": "http://h"}}
    assert list(from_har({"log": {"entries": [entry]}})) == [
        recorded("GET", "/", upstream="http://h")
    ]


def test_bodies_that_were_not_recorded():
    """One line for the file, whatever their number; a POST that has none is not one of them."""
    without = foreign(request={"postData": None})["log"]["entries"]
    *records, problem = from_har({"log": {"entries": without * 3}})
    assert len(records) == 3
    assert problem == (
        "no request has its body: record again with bodies "
        "(in a browser, save the HAR with content)"
    )
    some = foreign()["log"]["entries"] + without * 3
    *_, problem = from_har({"log": {"entries": some}})
    assert problem.startswith("3 of 4 requests lack their body: ")
    save = {"url": "http://h/slots/0?action=save", "postData": None, "bodySize": 0}
    assert len(list(from_har(foreign(request=save)))) == 1
    assert len(list(from_har(archive(recorded("POST", "/v1/messages"))))) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        5,
        SECRET,
        {},
        {"request": None},
        {"request": {"method": "GET"}},
        {"request": {"method": "GET", "url": "/"}, "response": SECRET},
    ],
)
def test_an_entry_that_is_none(wrong):
    """Is named by its number, nothing of it is said, and the others are used."""
    document = foreign()
    document["log"]["entries"].insert(0, wrong)
    problem, record = from_har(document)
    assert problem.startswith("entry 1: ")
    assert SECRET not in problem
    assert isinstance(record, Exchange)


@pytest.mark.parametrize(
    "changes",
    [
        {"request": {"method": 5}},
        {"request": {"url": f"http://[{SECRET}"}},
        {"request": {"headers": [SECRET]}},
        {"request": {"headers": [{"name": 1, "value": 2}]}},
        {"request": {"postData": {"text": 5}}},
        {"request": {"postData": {"text": f"{SECRET}!!!", "encoding": "base64"}}},
        {"_cacheproxy": {SECRET: SECRET}},
    ],
)
def test_an_entry_with_a_value_of_another_kind_is_none(changes):
    (problem,) = from_har(foreign(**changes))
    assert problem.startswith("entry 1: ")
    assert SECRET not in problem


@pytest.mark.parametrize("document", [None, [], {}, {"log": 1}, {"log": {"entries": {}}}])
def test_what_is_no_har(document):
    """Is said before anything is read."""
    with pytest.raises(CapturedError, match="not a HAR"):
        list(from_har(document))


def test_a_har_file(tmp_path):
    """On one line or on many, alone or in a folder."""
    (tmp_path / "a.har").write_text(json.dumps(foreign()))
    (tmp_path / "b.har").write_text(json.dumps(foreign(), indent=2))
    (tmp_path / "c.har").write_text(json.dumps({"x": 1} | foreign(request={"postData": None})))
    records, (problem,) = read(tmp_path)
    assert len(records) == 3
    assert str(problem).startswith(f"{tmp_path / 'c.har'}:1: no request has its body")
