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


def test_a_body_is_read_once_and_not_until_asked():
    """Making a request, and asking for its head, parses nothing."""
    request = Request("POST", "/v1/messages?x=1?y", ((b"A", b"caf\xe9"), (b"a", b"2")), b'{"a": 1}')
    assert (request.path, request.dialect) == ("/v1/messages", dialect.ANTHROPIC)
    assert (request.header("a"), request.header("x-two")) == ("café", None)
    assert "document" not in request.__dict__
    assert request.json == {"a": 1}
    assert request.document is request.document
    assert request.not_understood is None
    other = request.with_text('{"a": "é"}')
    assert other == dataclasses.replace(request, body='{"a": "é"}'.encode())
    assert (other.json, request.json) == ({"a": "é"}, {"a": 1})


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
