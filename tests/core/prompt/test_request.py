"""Request: frozen, and read lazily, once."""

from __future__ import annotations

import dataclasses
import json

import pytest

from cacheproxy.core.dialects.messages import MESSAGES
from cacheproxy.core.document.memo import Memo
from cacheproxy.core.prompt.request import Request


def test_a_body_is_read_once_and_not_until_asked():
    """Making a request, and asking for its head, parses nothing."""
    request = Request("POST", "/v1/messages?x=1?y", ((b"A", b"caf\xe9"), (b"a", b"2")), b'{"a": 1}')
    assert (request.path, request.dialect) == ("/v1/messages", MESSAGES)
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


def test_looking_at_a_body_is_quick_where_a_memo_knows_most_of_it():
    """Else a thread has to read it; what was read on the way there is known by then."""
    body = json.dumps({"messages": ["text " * 99] * 99}).encode()
    plain = Request("POST", "/v1/messages", (), body)
    assert plain.is_quick(len(body))
    assert not plain.is_quick(len(body) - 1)
    known = Request("POST", "/v1/messages", (), body, Memo())
    assert not known.is_quick(len(body) // 99)
    assert not known.is_read
    assert known.json == json.loads(body)
    again = dataclasses.replace(known)
    assert again.is_quick(len(body) // 8)
    assert again.is_read
    assert not dataclasses.replace(known).is_quick(len(body) // 9)
    broken = dataclasses.replace(known, body=body[:-1])
    assert broken.is_quick(len(body) // 4)
    assert broken.not_understood
