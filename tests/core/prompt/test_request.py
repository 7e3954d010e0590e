"""Request: frozen, and read lazily, once."""

from __future__ import annotations

import dataclasses
import json

import pytest

from cacheproxy.core.document.compare import overlap
from cacheproxy.core.document.document import Document
from cacheproxy.core.prompt import dialect
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.fold import normalize
from cacheproxy.core.rules.rule import Rule


def test_json_is_not_looked_at_until_asked():
    """Making a request, and asking for its head, parses nothing."""
    request = Request("POST", "/v1/messages?x=1", ((b"A", b"1"),), b'{"a": 1}')
    assert (request.path, request.dialect, request.header("a")) == (
        "/v1/messages",
        dialect.ANTHROPIC,
        "1",
    )
    assert "document" not in request.__dict__
    assert request.json == {"a": 1}
    assert request.not_understood is None


def test_json_is_read_once():
    """Every look is at the same document."""
    request = Request("POST", "/", body=b'{"a": 1}')
    assert request.document is request.document
    assert request.json is request.json


def test_a_request_is_frozen():
    """Nothing of a request can be assigned."""
    request = Request("POST", "/")
    with pytest.raises(dataclasses.FrozenInstanceError):
        request.body = b"x"


@pytest.mark.parametrize(
    ("target", "path"),
    [("/a?b?c", "/a"), ("/a", "/a"), ("*", "*"), ("/?", "/"), ("", "")],
)
def test_path_is_the_target_without_its_query(target, path):
    """Everything from the first question mark on is query."""
    assert Request("GET", target).path == path


def test_header_is_the_first_of_its_name_in_any_case():
    """Names compare without case; values are Latin-1 text."""
    headers = ((b"X-One", b"caf\xe9"), (b"x-one", b"2"), (b"Empty", b""))
    request = Request("GET", "/", headers)
    assert request.header("x-oNe") == "café"
    assert request.header("empty") == ""
    assert request.header("x-two") is None


def test_with_text_changes_the_body_alone():
    """The new request has the new text as UTF-8, and looks at it afresh."""
    request = Request("POST", "/v1/messages", ((b"a", b"b"),), b'{"a": 1}')
    assert request.json == {"a": 1}
    other = request.with_text('{"a": "é"}')
    assert other == Request("POST", "/v1/messages", ((b"a", b"b"),), '{"a": "é"}'.encode())
    assert other.json == {"a": "é"}
    assert request.json == {"a": 1}


@pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b"{", b'{"a": 1} x', b"SECRET"])
def test_body_that_is_no_json_object_says_why_not(body):
    """The reason is a few words without the body's text."""
    request = Request("POST", "/", body=body)
    assert request.json is None
    assert request.not_understood
    assert "SECRET" not in request.not_understood


def test_what_is_known_of_an_edited_body_gives_way_to_another_that_is_at_hand():
    """Its places count from the body before the edit, not from that other one."""
    received = Request("POST", "/v1/messages", (), b'{"system": "nonce 7", "messages": [1]}')
    rule = Rule("nonce", "/system", r"nonce \d", "nonce")
    edited = normalize(received, [rule]).request
    other = Document(b'{"system": "nonce 7", "messages": []}')
    assert edited.after(overlap(edited.body, other)).json == json.loads(edited.body)
