"""Label values: cleaned, and bounded in number."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.metrics.labels import OTHER, UNKNOWN, Labels, clean


@given(st.lists(st.text(max_size=300), max_size=40))
def test_however_many_there_are_few_remain(texts):
    """The first few, ``other`` for the rest; those that were known stay known."""
    labels = Labels(5)
    first = [labels.of(text) for text in texts]
    assert len(set(first) - {OTHER}) <= 5
    assert [labels.of(text) for text in texts] == first


@given(st.text(st.characters(), max_size=400))
def test_any_text_becomes_a_value(text):
    """Printable, short, not empty, and UTF-8: lone surrogates as well."""
    value = clean(text)
    assert value
    assert value.isprintable()
    assert len(value) <= 64
    value.encode()


def test_a_plain_name_stays_as_it_is():
    assert clean("claude") == "claude"
    assert clean("http://localhost:8080") == "http://localhost:8080"
    assert clean(" ") == UNKNOWN


def test_credentials_are_no_labels():
    """Neither of a known shape nor those that the request itself carried."""
    labels = Labels(5)
    assert "Xy12Zw34Qq" not in labels.of("sk-ant-api03-Xy12Zw34QqXy12Zw34Qq")
    assert "geheim" not in labels.of("a-geheim4711geheim", lambda: [b"geheim4711geheim"])
