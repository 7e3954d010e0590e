"""Our own counters and histograms are shown as prometheus-client shows its own."""

from __future__ import annotations

from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.metrics import table
from cacheproxy.metrics.counted import Counted
from cacheproxy.metrics.family import family
from cacheproxy.metrics.series import Counter, Histogram
from tests.metrics.theirs import Theirs, pages

VALUES = st.sampled_from(["claude", "http://localhost:8080", "other", 'a "b"\\\n', "é"])


def events_of(row):
    """A row, values for its labels, and an amount: often one that is a bound."""
    amounts = st.floats(0, 1e9) | (
        st.sampled_from(row.buckets) if row.buckets else st.integers(0, 1 << 53)
    )
    return st.tuples(st.just(row), st.tuples(*[VALUES] * len(row.labels)), amounts)


def count(series, values, amount):
    """Count it as the observer does."""
    if isinstance(series, Histogram):
        buckets = series[values]
        buckets.counts[bisect_left(series.bounds, amount)] += 1
        buckets.sum += amount
    else:
        series[values] += amount


@given(st.lists(st.sampled_from(table.COUNTED).flatmap(events_of), max_size=60))
def test_the_same_events_make_the_same_families(events):
    """Names, types, words, labels, figures and their order, in both formats of the page."""
    counted, theirs = Counted(), Theirs()
    ours = {
        row: (counted.histogram if row.buckets else counted.counter)(row) for row in table.COUNTED
    }
    for row, values, amount in events:
        count(ours[row], values, amount)
        theirs.add(row, values, amount)
    counted.refresh()
    assert list(counted.collect()) == list(theirs.collect())
    assert pages(counted) == pages(theirs)


def test_a_counter_that_was_only_looked_at_has_no_series():
    counter = Counter(table.RULE_HITS)
    assert counter["stamp",] == 0
    assert not counter.family().samples
    counter["stamp",] += 0
    assert [each.value for each in counter.family().samples] == [0]


def test_a_copy_stays_as_it_is():
    """Also of a series that there was before."""
    counter, histogram = Counter(table.RULE_HITS), Histogram(table.EDIT)
    for _ in range(2):
        copies = (counter.copied(), histogram.copied())
        before = [copy.family() for copy in copies]
        count(counter, ("stamp",), 1)
        count(histogram, ("up",), 0.1)
        assert [copy.family() for copy in copies] == before
        assert [counter.family(), histogram.family()] != before


def test_a_family_is_of_its_rows_kind():
    """A counter's goes without its ending, as OpenMetrics has it."""
    for row in (*table.COUNTED, *table.STANDING):
        made = family(row)
        assert made.type == row.kind
        assert made.name == row.name.removesuffix("_total")
        assert made.documentation == row.says
        assert not made.samples
