"""The exact text of arguments, remembered within bounds."""

from __future__ import annotations

import json
import threading

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


def test_the_least_recently_used_go_first():
    """By number."""
    spellings = Spellings(most=2)
    for name in "ab":
        spellings.keep(name, "{ }")
    assert spellings.find("a", "{}", {}) == "{ }"
    spellings.keep("c", "{ }")
    assert [spellings.find(name, "{}", {}) for name in "abc"] == ["{ }", "{}", "{ }"]
    assert len(spellings) == 2


def test_bytes_are_bounded():
    """Of all texts; one that is too large alone replaces what it stood for with nothing."""
    spellings = Spellings(most_bytes=40)
    spellings.keep("a", '{"x": "' + "é" * 10 + '"}')
    spellings.keep("b", "{ }")
    assert len(spellings) == 2
    spellings.keep("c", '{"x":      1}')
    assert len(spellings) == 2
    assert spellings.find("b", "{}", {}) == "{ }"
    spellings.keep("b", "{" + " " * 100 + "}")
    assert spellings.find("b", "{}", {}) == "{}"


def test_threads_may_share_it():
    """Nothing is lost, nothing raised, and the bounds hold."""
    spellings = Spellings(most=50)
    failures = []

    def work(number):
        try:
            for round_ in range(500):
                name = str((number * 7 + round_) % 80)
                spellings.keep(name, f'{{"n":  {name}}}')
                text = spellings.find(name, "gone", {"n": int(name)})
                assert text in ("gone", f'{{"n":  {name}}}')
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not failures
    assert len(spellings) <= 50
