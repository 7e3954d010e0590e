"""Our own counters and histograms are shown as prometheus-client shows its own."""

from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.metrics import OTHER, UNKNOWN, Labels, Metrics, add, clean
from cacheproxy.record.metrics import COUNTED
from cacheproxy.web.monitoring import content
from tests.metrics.builders import families, parsed, value
from tests.metrics.theirs import Theirs, pages
from tests.observe.exchanges import body, exchange

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
        add([(row.name, metrics.series[row], values, None)], [{row.name: amount}])
        theirs.add(row, values, amount)
    found = families(metrics)
    found.standing.clear()
    assert list(found.collect()) == list(theirs.collect())
    assert pages(found) == pages(theirs)


def test_a_page_in_the_making_does_not_change():
    """A thread makes it while exchanges are counted, and while the next one is asked for."""
    metrics = Metrics()
    metrics.cacheproxy_exchange_finished([exchange(body("a"), edited_after=0.1)])
    first = families(metrics)
    before = content(first).body
    metrics.cacheproxy_exchange_finished([exchange(body("a"), edited_after=0.1)])
    later = content(families(metrics)).body
    assert content(first).body == before != later
    for name in ("cacheproxy_requests_total", "cacheproxy_edit_seconds_count"):
        assert [value(parsed(page.decode()), name) for page in (before, later)] == [1, 2]


def test_no_name_is_there_twice():
    names = [family.name for family in families().collect()]
    assert len(set(names)) == len(names) > 20


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
