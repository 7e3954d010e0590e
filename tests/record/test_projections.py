"""Whatever is known of an exchange, each projection shows it; none but a capture has its words."""

import json
from dataclasses import replace

import pytest
from hypothesis import given

from cacheproxy.core.prompt.request import Request
from cacheproxy.record import genai, jsonl, logline, metrics, row
from cacheproxy.record.columns import record_of
from cacheproxy.record.exchange import Exchange, redacted
from cacheproxy.record.genai import describe
from tests.record.test_jsonl import anything, exchange

SECRET = "kanarienvogel"
SHOWN = {
    "log line": lambda one: logline.lines(one, verbose=True),
    "page row": row.listed,
    "totals": record_of,
    "metrics": lambda one: (metrics.labels_of(one), metrics.amounts_of([metrics.figures_of(one)])),
    "span": describe,
}
KEPT = {"capture": jsonl.to_line, "HAR": lambda one: jsonl.to_fields(redacted(one))}
TABLES = (jsonl.LINE, row.LISTED, genai.OURS, genai.MODEL)


@pytest.mark.parametrize("name", [*SHOWN, *KEPT])
def test_of_a_bare_request_nothing_else_is_known(name):
    """As of one that another program recorded."""
    for received in (Request("GET", "/"), Request("POST", "/v1/messages", (), b"{}")):
        assert (SHOWN | KEPT)[name](Exchange(received).finish())


@given(anything)
def test_anything_may_be_known(recorded):
    for show in SHOWN.values():
        assert show(recorded)


@pytest.mark.parametrize("name", SHOWN)
def test_words_and_keys_are_in_none_that_is_shown(name):
    """Wherever they stand in the request and its answer."""
    said = {"model": "m", "system": SECRET, "messages": [{"role": "user", "content": SECRET}]}
    headers = ((b"Authorization", SECRET.encode()), (b"Cookie", SECRET.encode()))
    target = f"/v1/messages?key={SECRET}"
    received = Request("POST", target, headers, json.dumps(said).encode())
    full = exchange(received=received, sent=received, response_body=SECRET.encode())
    for status in (200, 400, 404):
        turn = 14 if status == 200 else 0
        assert SECRET not in repr(SHOWN[name](replace(full, status=status, turn=turn)))


@pytest.mark.parametrize("name", KEPT)
def test_keys_are_in_none_that_is_kept(name):
    assert SECRET not in repr(KEPT[name](exchange()))


def test_no_table_has_a_column_twice():
    for table in TABLES:
        names = [column.name for column in table]
        assert len(set(names)) == len(names)
