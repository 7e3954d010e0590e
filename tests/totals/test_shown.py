"""What is shown of the totals: sums, breaks, groups, lists, conversations, tables (shown.txt)."""

import csv
import json
from io import StringIO

import pytest

from cacheproxy.core.conversation.verdict import Judgement, Reason
from cacheproxy.totals import lists
from cacheproxy.totals.lists import FILTERS, START, requests, rows_of
from cacheproxy.totals.store import InMemory, tidy
from cacheproxy.totals.windows import WINDOWS, lifetime, overview
from tests import transcript
from tests.transcript import columns, members, plainly  # noqa: F401 (shown.txt)

from .builders import MS, NOW, keep, record

BROKE = {"verdict": Judgement.BREAK, "reason": Reason.MESSAGES_CHANGED, "lost_ms": 2000}
DATED = BROKE | {"shape": "date", "lost": 700}
NONE = {"prompt": None, "reused": None, "evaluated": None}
DAY = 86_400


def fresh(*records):
    """A store in memory that drops nothing, with these."""
    store = InMemory(1 << 20)
    keep(store, *records)
    return store


def table(rows, *wanted):
    """Rows, or these columns of them, below the names of their columns; times since NOW."""
    wanted = wanted or tuple(rows[0] if rows else ())
    times = ("at", "first", "last")
    shown = [
        [plainly(row[name] - NOW if name in times else row[name]) for name in wanted]
        for row in rows
    ]
    return "\n".join(" | ".join(each) for each in (wanted, *shown))


def each(question, store, **more):
    """What a question finds in all windows alike."""
    found = [question(store, name, MS, **more) for name in WINDOWS]
    assert all(one == found[0] for one in found)
    return found[0]


def sums(store, name, now, *, but=()):
    """Of a window, whose series has the same requests and lies within it."""
    found = overview(store, name, now)
    series, window = found["series"], WINDOWS[name]
    assert sum(one["requests"] for one in series) == found["sums"]["requests"]
    assert all(found["start"] <= one["at"] < found["end"] for one in series)
    assert found["start"] <= NOW < found["end"]
    assert (found["end"] - found["start"]) * 1000 == window.length
    json.dumps(found)
    return {key: value for key, value in found["sums"].items() if key not in but}


def read(store, name, since=0):
    """All pages of a table of comma-separated values."""
    text, after = "", START
    while after is not None:
        more, after = rows_of(store, name, since, after)
        text += more
    return list(csv.DictReader(StringIO(text, newline="")))


def paged(ask, before=None):
    """What all pages have, one behind the other."""
    found = []
    while True:
        page = ask(before)
        found += page[next(iter(page))]
        before = page["next"]
        if before is None:
            return found


def numbers(rows):
    return [row["number"] for row in rows]


def names(rows):
    return [row["session"] for row in rows]


def some(count, first=1):
    """Every third one breaks, every fourth is slow, every fifth fails; by three clients."""
    return [
        record(
            number=first - 1 + number,
            wall=NOW + number,
            client=("claude", "cline", "open_claw")[number % 3],
            session=f"session-{number % 6}",
            model=("Qwen-Coder", "gemma")[number % 2],
            reason=Reason.EVICTED if number % 3 == 0 else None,
            first_ms=12_000 if number % 4 == 0 else 500,
            failed=number % 5 == 0,
        )
        for number in range(1, count + 1)
    ]


def test_all_that_is_shown():
    transcript.holds("shown.txt", globals())


def test_windows_and_lifetime_tell_the_same():
    """What was spared, too: no price is made here, what nobody could price is apart."""
    store = fresh()
    for number in range(15):
        spared, price = number * 37 - 200, None if number % 7 == 0 else number * 41 - 200
        keep(store, record(spared=spared, spared_ms=price, failed=number % 5 == 0))
        found = lifetime(store)
        assert found.pop("since") == NOW
        assert {name: each(sums, store, but=("first_median",))[name] for name in found} == found


WANTED = {
    "all": lambda number: True,
    "breaks": lambda number: number % 3 == 0,
    "slow": lambda number: number % 4 == 0,
    "errors": lambda number: number % 5 == 0,
}
SEARCHES = {
    "": lambda number: True,
    "claude": lambda number: number % 3 == 0,
    "CLINE": lambda number: number % 3 == 1,
    "session-4": lambda number: number % 6 == 4,
    "qwen": lambda number: number % 2 == 0,
    "open_claw": lambda number: number % 3 == 2,
    **dict.fromkeys(("nobody", "%", "openxclaw", "'; DROP TABLE x; --"), lambda number: False),
}
PERIODS = ((None, None), (1, 25), (40, 41), (0, 10**9), (61, 99), (30, 30), (30, 20))


@pytest.mark.parametrize("few", [0, 10_000], ids=["by age", "by session"])
@pytest.mark.parametrize("which", FILTERS)
def test_a_list_has_what_is_asked_for_once_page_by_page_the_latest_first(which, few, monkeypatch):
    """Filter, search (as text, no pattern) and period; also where a clock was set back."""
    monkeypatch.setattr(lists, "_FEW", few)
    store = fresh(*some(60), *some(60, 61))
    for search, is_found in SEARCHES.items():
        for start, end in PERIODS if search in ("", "CLINE") else PERIODS[:1]:
            period = None if start is None else (MS + 1000 * start, MS + 1000 * end)

            def ask(before, search=search, period=period):
                return requests(store, which, search, before, limit=7, period=period)

            wanted = [
                turn * 60 + number
                for turn in (1, 0) for number in range(60, 0, -1)
                if WANTED[which](number) and is_found(number)
                and (period is None or start <= number < end)
            ]  # fmt: skip
            assert (search, start, numbers(paged(ask))) == (search, start, wanted)


@pytest.mark.parametrize("name", ['=cmd|"x"!A1', "+1", "-1", "@sum", "a,b", '"\r\n'])
def test_a_name_is_no_formula_and_no_second_column(name):
    (row,) = read(fresh(record(session=name, client=name)), "conversations")
    assert row["session"] == (f"'{name}" if name[0] in "=+-@" else name)


@pytest.mark.parametrize("which", ["breaks", "slow", "errors"])
def test_a_filter_has_its_index(which):
    """Otherwise a page of a rare kind reads every row."""
    plan = fresh().connection.execute(
        f"EXPLAIN QUERY PLAN SELECT * FROM exchanges WHERE {FILTERS[which][0]} ORDER BY id DESC"
    )
    assert f"exchanges_{'failed' if which == 'errors' else which}" in str(plan.fetchall())


def steps(store, question):
    """What SQLite does to answer ``question``, in tens of its instructions."""
    made = []
    store.connection.set_progress_handler(lambda: made.append(1), 10)
    question()
    store.connection.set_progress_handler(None, 0)
    return len(made)


def test_a_period_is_found_by_its_index():
    """A page of one reads no more of many rows than of few."""

    def read(store):
        period = (MS + 10_000, MS + 20_000)
        return steps(store, lambda: requests(store, limit=5, period=period))

    assert read(fresh(*some(1000))) < 1.5 * read(fresh(*some(50)))


def test_what_was_before_the_window_costs_nothing():
    """Of an upstream that is gone, too."""
    store = fresh(*(record(wall=NOW - 60 * at, number=at) for at in range(60)))

    def read():
        tidy(store, MS)
        return steps(store, lambda: (overview(store, "1h", MS), lifetime(store)))

    before = read()
    keep(store, *(record(wall=NOW - 7200 - 60 * at) for at in range(1500)))
    keep(store, *(record(wall=NOW - 9000 - 60 * at, upstream="http://gone") for at in range(900)))
    assert read() < 1.2 * before
