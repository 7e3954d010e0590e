"""Columns: one fact of an exchange each, in the order of their table."""

from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.prompt.request import Request
from cacheproxy.record.exchange import Exchange, RecordColumn, row_of

EXCHANGE = Exchange(Request("POST", "/v1/messages"), usage=Usage(100, 90), status=200)


def test_a_row_has_fields_and_what_is_made_of_them_in_the_order_of_its_columns():
    row = row_of([
        RecordColumn("prompt", "usage.prompt", "tokens"),
        RecordColumn("path", lambda exchange: exchange.received.path),
        RecordColumn("status", "status"),
    ])  # fmt: skip
    assert list(row(EXCHANGE).items()) == [
        ("prompt", 100),
        ("path", "/v1/messages"),
        ("status", 200),
    ]


def test_a_row_may_have_one_field_or_none():
    assert row_of([RecordColumn("status", "status")])(EXCHANGE) == {"status": 200}
    assert row_of([RecordColumn("one", lambda _: 1)])(EXCHANGE) == {"one": 1}
    assert row_of([])(EXCHANGE) == {}
