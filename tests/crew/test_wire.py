"""What keeper and workers say: the same comes out as went in."""

from __future__ import annotations

from dataclasses import fields, replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.config import Config, RuleTable
from cacheproxy.core.conversation.exchange import Exchange, Outcome
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.document.edits import REMOVE, Edit
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.fold import Report
from cacheproxy.crew import messages, wire

TEXT = st.text(st.characters(), max_size=20)  # lone surrogates as well
LATIN = st.text(st.characters(max_codepoint=255), max_size=20)
HEADERS = st.lists(st.tuples(st.binary(max_size=8), st.binary(max_size=8)), max_size=3).map(tuple)
BODY = st.one_of(st.binary(max_size=60), st.text("ab", max_size=60).map(str.encode))
SECONDS = st.floats(0, 1e9)
MAYBE = st.none() | SECONDS
COUNT = st.integers(0, 1 << 53)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
SPAN = st.none() | st.tuples(COUNT, COUNT)
EDITS = st.builds(Edit, TEXT, JSON | st.just(REMOVE), TEXT, SPAN)
REPORTS = st.builds(Report, TEXT, st.lists(EDITS, max_size=3).map(tuple), st.none() | TEXT)
REQUESTS = st.builds(Request, LATIN, LATIN, HEADERS, BODY)
USAGE = st.builds(Usage, st.none() | COUNT, st.none() | COUNT, st.none() | COUNT, MAYBE, MAYBE)
EXCHANGES = st.builds(
    Exchange,
    received=REQUESTS,
    sent=st.none() | REQUESTS,
    reports=st.lists(REPORTS, max_size=3).map(tuple),
    session=st.none() | st.builds(Session, TEXT, TEXT),
    turn=st.integers(0, 1000),
    upstream=TEXT,
    status=st.none() | st.integers(100, 599),
    outcome=st.sampled_from(Outcome),
    usage=USAGE,
    wall=SECONDS,
    first_byte=MAYBE,
    seconds=SECONDS,
    bytes_down=COUNT,
    error=st.none() | TEXT,
    edited_after=MAYBE,
    sent_after=MAYBE,
    head_after=MAYBE,
    response_headers=HEADERS,
    response_body=st.none() | BODY,
)
KEEPERS_OWN = {"number", "side", "verdict", "profile", "spared"}


def there_and_back(exchange, *, lane=None):
    """The exchange as the keeper has it, and how many bytes its bodies took."""
    message, load = wire.exchange_out(exchange, lane)
    sent = msgspec.msgpack.encode(message)
    found = msgspec.msgpack.Decoder(messages.FromWorker).decode(sent)
    assert isinstance(found, messages.Finished)
    assert found.lane == lane
    return wire.exchange_in(found, b"".join(load)), sum(map(len, load))


@given(EXCHANGES)
def test_an_exchange_comes_out_as_it_went_in(exchange):
    """All of it, with texts that no UTF-8 has."""
    assert there_and_back(exchange)[0] == exchange


@given(EXCHANGES)
def test_what_was_not_edited_is_one_request(exchange):
    """So that whoever looks reads it once; nothing of it is sent twice."""
    exchange = replace(exchange, sent=exchange.received, response_body=None)
    found, size = there_and_back(exchange, lane=(b"client", b"\xed\xa0\xbd", b"", b"tools"))
    assert found.sent is found.received
    assert size == len(exchange.received.body)


@given(EXCHANGES, HEADERS)
def test_a_body_that_is_the_same_is_sent_once(exchange, headers):
    """Also where another head went up with it."""
    sent = replace(exchange.received, headers=headers)
    exchange = replace(exchange, sent=sent, response_body=None)
    found, size = there_and_back(exchange)
    assert found == exchange
    assert size == len(exchange.received.body)


def test_every_field_of_an_exchange_is_sent():
    """But for those that only the keeper knows: who adds one has to say which it is."""
    drawn = {"received", "sent", "reports", "session", "turn", "upstream", "status", "outcome"}
    drawn |= {"usage", "wall", "first_byte", "seconds", "bytes_down", "error", "edited_after"}
    drawn |= {"sent_after", "head_after", "response_headers", "response_body"}
    assert {field.name for field in fields(Exchange)} == drawn | KEEPERS_OWN


CONFIGS = [
    Config(),
    Config(token="s3cret", allow_host=("a", "b"), capture="/x\udcff", grace=0.5, workers=2),
    Config(rule=(RuleTable("n", ["system", "/a"], r"\d+", "é", literals=["x"], pin=True),)),
]


@pytest.mark.parametrize("config", CONFIGS)
def test_settings_come_out_as_they_went_in(config):
    """Rules, secrets, and file names that are no UTF-8."""
    begin = messages.Begin(1, wire.config_out(config), b"via")
    found = msgspec.msgpack.Decoder(messages.FromKeeper).decode(msgspec.msgpack.encode(begin))
    assert wire.config_in(found.config) == config
