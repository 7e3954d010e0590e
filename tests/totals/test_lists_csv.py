"""What a window has, as comma-separated values."""

from __future__ import annotations

import csv
from io import StringIO

import pytest

from cacheproxy.totals.lists import START, TABLES, rows_of

from .builders import MS, NOW, keep, record


def read(store, name, since=0):
    """All pages as one table."""
    text, after = "", START
    while after is not None:
        more, after = rows_of(store, name, since, after)
        text += more
    return list(csv.DictReader(StringIO(text, newline="")))


@pytest.mark.parametrize("name", TABLES)
def test_nothing_has_the_names_of_its_columns(store, name):
    text, after = rows_of(store, name, 0)
    assert (text.count("\r\n"), after) == (1, None)


def test_a_row_for_each_request_and_conversation(store):
    keep(store, record(rules="a,b", spared_ms=1500), record(wall=NOW - 9, session=None))
    second, first = read(store, "requests")
    assert (first["session"], first["prompt"], first["last"]) == ("3f9a", "1000", "250")
    assert (first["rules"], first["saved_seconds"], second["session"]) == ("a,b", "1.5", "")
    assert len(read(store, "requests", MS)) == 1
    (row,) = read(store, "conversations")
    assert (row["client"], row["turns"], row["saved_seconds"]) == ("agent", "1", "1.5")


def test_a_long_one_comes_in_pages_that_fit(store):
    keep(store, *(record(number=number, turn=number) for number in range(1, 2501)))
    assert [row["turn"] for row in read(store, "requests")] == [str(n) for n in range(1, 2501)]


@pytest.mark.parametrize("name", ['=cmd|"x"!A1', "+1", "-1", "@sum", "a,b", '"\r\n'])
def test_a_name_is_no_formula_and_no_second_column(store, name):
    keep(store, record(session=name, client=name))
    (row,) = read(store, "conversations")
    assert row["session"] in (name, f"'{name}")
    assert not row["session"].startswith(("=", "+", "-", "@"))
