"""Our own counters and histograms are shown as prometheus-client shows its own."""

from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.metrics import OTHER, Labels, Metrics, add, clean
from cacheproxy.record.metrics import COUNTED
from tests import transcript
from tests.metrics.builders import families
from tests.metrics.theirs import Theirs, pages

VALUES = st.sampled_from(["claude", "http://localhost:8080", "other", 'a "b"\\\n', "é"])


def events_of(row):
    """A row, values for its labels, and an amount: often one that is a bound."""
    amounts = st.floats(0, 1e9) | (
        st.sampled_from(row.buckets) if row.buckets else st.integers(0, 1 << 53)
    )
    return st.tuples(st.just(row), st.tuples(*[VALUES] * len(row.labels)), amounts)


@given(st.lists(st.sampled_from(COUNTED).flatmap(events_of), max_size=60))
def test_the_same_events_make_the_same_families(events):
    """Names, types, words, labels, figures and their order, in both formats of the page."""
    metrics, theirs = Metrics(), Theirs()
    for row, values, amount in events:
        add([(row.name, metrics.series[row], values, None)], {row.name: [amount]})
        theirs.add(row, values, amount)
    found = families(metrics)
    found.standing.clear()
    assert list(found.collect()) == list(theirs.collect())
    assert pages(found) == pages(theirs)


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


def test_all_that_is_said():
    transcript.holds("series.txt", globals())
