"""The exact text of arguments, remembered within bounds."""

from __future__ import annotations

import json

import pytest

from cacheproxy.core.conversation.spellings import Spellings


def found(kept, text, call="a"):
    spellings = Spellings()
    spellings.keep("a", kept)
    return spellings.find(call, text, json.loads(text))


@pytest.mark.parametrize(
    ("kept", "text"),
    [
        ('{"a": 1.0}', '{"a":1}'),
        ('{"a": 1e2}', '{"a":100}'),
        ('{"b": 1,"a":[{}]}', '{"a":[{}],"b":1}'),
        ('{"a":"\\u00e9"}', '{"a":"é"}'),
        ('{"a":"\\ud83d"}', '{ "a":"\\ud83d"}'),
        ('{"a":1,"a":2}', '{"a":2}'),
        ('{"a":12345678901234567890}', '{"a":12345678901234567000}'),
    ],
)
def test_what_means_the_same_is_the_same(kept, text):
    """Spaces, order, escapes, and numbers as JavaScript writes them."""
    assert found(kept, text) == kept


@pytest.mark.parametrize(
    ("kept", "text"),
    [
        ('{"a":1}', '{"a":true}'),
        ('{"a":0}', '{"a":null}'),
        ('{"a":[1,2]}', '{"a":[2,1]}'),
        ('{"a":1}', '{"a":1,"b":2}'),
        ('{"a":"1"}', '{"a":1}'),
        ('{"a":9007199254740991}', '{"a":9007199254740990}'),
        ('{"a":1' + "0" * 400 + "}", '{"a":1}'),
        ("{", "{}"),
    ],
)
def test_what_was_changed_is_the_client_s(kept, text):
    """The client may have edited the call; the server must see what the client says."""
    assert found(kept, text) == text


def test_another_call_is_not_known():
    assert found('{"a": 1}', '{"a":1}', call="b") == '{"a":1}'
