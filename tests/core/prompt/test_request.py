"""Request: frozen, and read lazily, once."""

from __future__ import annotations

import dataclasses
import json

import pytest

from cacheproxy.core.document.memo import Memo
from cacheproxy.core.prompt import dialect
from cacheproxy.core.prompt.request import Request


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
