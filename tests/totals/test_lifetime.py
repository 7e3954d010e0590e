"""Lifetime totals: the truth, whoever is restarted, and whatever the clock does."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheproxy.core.conversation.verdict import Judgement, Reason
from cacheproxy.core.server.status import Look, State
from cacheproxy.totals.snapshot import BOTH, COUNTERS, RESPONSES, lifetime
from cacheproxy.totals.windows import WINDOWS, overview
from tests.core.serving import AMOUNTS, World, of_others, of_ours

from .builders import MS, NOW, URL, keep, look, record, store_in


class Running:
    """A proxy that keeps totals of a world, on a clock of its own; it may be restarted."""

    def __init__(self, folder, world):
        self.folder = folder
        self.world = world
        self.wall = NOW
        self.moment = 0.0
        self.begun = {}
        self.store = store_in(folder)

    def restart(self):
        """Of the proxy: its clock that only goes forward begins anew, and so may the server's."""
        self.store.flush()
        self.store.connection.close()
        self.store = store_in(self.folder)
        self.moment = 0.0
        self.world.open.clear()  # those under way end with it; the server counts what it did

    def step(self, name, *arguments):
        self.moment += 1.0
        if name == "jump":
            self.wall += arguments[0]
        elif name == "ours restart":
            self.restart()
        elif name == "down":
            self.store.look(Look(URL, self.wall, self.moment, State.DOWN))
        elif name == "loading":
            self.store.look(Look(URL, self.wall, self.moment, State.LOADING))
        elif name == "read":
            reading = self.world.read()
            figures = {key: getattr(reading.figures, key) for key in AMOUNTS}
            self.store.look(look(self.wall, start=reading.start, moment=self.moment, **figures))
        elif name == "begin":
            self.world.begin(*arguments)
            asked = self.world.open[-1]
            self.begun[id(asked)] = asked, self.moment  # kept, so that its id is no other's
        else:
            asked = getattr(self.world, name)(*arguments)
            if asked is not None:
                self.finished(asked)

    def finished(self, asked):
        evaluated, reused, generated = asked.amounts
        _, began = self.begun.pop(id(asked), (None, self.moment))
        keep(
            self.store,
            record(
                wall=self.wall,
                began=began,
                prompt=evaluated + reused,
                reused=reused,
                evaluated=evaluated,
                output=generated,
            ),
        )

    def totals(self):
        figures = lifetime(self.store)["all"]["figures"]
        return [figures[name]["value"] for name in AMOUNTS]

    def samples(self):
        """The sums over the series, which are made of the same."""
        sums = ", ".join(f"total({name})" for name in AMOUNTS)
        return list(self.store.connection.execute(f"SELECT {sums} FROM samples").fetchone())


events = st.one_of(
    of_ours,
    of_ours,
    st.tuples(st.just("jump"), st.sampled_from([-86_400.0, -1.0, 0.5, 3600.0, 1e7])),
    st.just(("ours restart",)),
    st.just(("down",)),
    st.just(("loading",)),
)


def run(world, happens):
    with tempfile.TemporaryDirectory() as folder:
        running = Running(Path(folder), world)
        for event in [*happens, ("read",)]:
            running.step(*event)
        found = running.totals(), running.samples()
        running.store.connection.close()
    return found


@pytest.mark.slow
@settings(max_examples=25)
@given(st.lists(events, max_size=25))
def test_totals_are_the_truth(happens):
    """Server restarts, gaps, our own restarts, clock jumps; and the series adds up to them."""
    world = World()
    totals, samples = run(world, happens)
    assert totals == world.truth
    assert samples == world.truth


@pytest.mark.slow
@settings(max_examples=25)
@given(st.lists(st.one_of(events, of_others), max_size=25))
def test_nothing_is_counted_twice_where_others_ask_too(happens):
    world = World()
    totals, _ = run(world, happens)
    assert all(one <= other for one, other in zip(totals, world.truth, strict=True))


def figures(store):
    return lifetime(store)["all"]["figures"]


def test_a_server_without_metrics_is_counted_by_responses(store):
    """And that is said."""
    keep(store, record(), record())
    assert lifetime(store)["all"]["exchanges"] == 0
    assert lifetime(store)["waiting"]["prompt"] == 2000
    store.look(look())
    found = lifetime(store)
    assert found["waiting"]["exchanges"] == 0
    assert found["all"]["figures"]["prompt"] == {"value": 2000, "source": RESPONSES}
    assert found["all"]["figures"]["requests"] == {"value": 2, "source": RESPONSES}
    assert found["targets"][0]["metrics"] == "off"


def test_with_metrics_all_that_the_server_did_counts(store):
    """Others' requests, too; what has no counter is told by responses."""
    keep(store, record())
    store.look(look(evaluated=500.0, reused=900.0, generated=70.0))
    assert figures(store)["prompt"] == {"value": 1400, "source": COUNTERS}
    assert figures(store)["generated"]["value"] == 70
    assert figures(store)["generation"] == {"value": 2.0, "source": RESPONSES}


def test_metrics_switched_on_with_a_restart(store):
    """What came before is told by responses, what came after by counters: both, but once."""
    keep(store, record())
    store.look(look())
    keep(store, record(prompt=10, reused=4, evaluated=6, output=1))
    store.look(look(evaluated=6.0, reused=4.0, generated=1.0))
    assert figures(store)["prompt"] == {"value": 1010, "source": BOTH}
    assert figures(store)["generated"]["value"] == 51


def test_metrics_that_are_away_for_a_while_are_not_counted_twice(store):
    """A page that cannot be had is no new server; nor is what it tells afterwards all new."""
    keep(store, record())
    store.look(look(evaluated=100.0, reused=900.0, generated=50.0))
    keep(store, record())
    store.look(look())
    keep(store, record())
    store.look(look(evaluated=300.0, reused=2700.0, generated=150.0))
    assert [figures(store)[name]["value"] for name in AMOUNTS] == [300, 2700, 150]


def test_totals_are_kept_by_what_the_server_serves(store):
    """Clients ask for whatever name they know, and get what is loaded."""
    keep(store, record(model="claude-x"), record(model="gpt-y"))
    store.look(look(served="qwen", evaluated=200.0, reused=1800.0, generated=100.0))
    keep(store, record(began=1.0))
    counters = {"evaluated": 100.0, "reused": 900.0, "generated": 50.0}
    store.look(look(served="gemma", start="2", **counters))
    models = [(each["model"], each["exchanges"]) for each in lifetime(store)["targets"]]
    assert models == [("qwen", 2), ("gemma", 1)]


def test_where_several_models_are_served_it_is_the_one_asked_for(store):
    """Names that clients make up are bounded; nothing is lost in the sums."""
    keep(store, *(record(model=f"m{number % 350}") for number in range(400)))
    store.look(look(served=None))
    found = lifetime(store)
    models = {each["model"]: each["figures"]["prompt"]["value"] for each in found["targets"]}
    assert (models["m0"], models["m100"]) == (2000, 1000)
    assert len(models) < 300
    assert found["all"]["exchanges"] == 400


def test_breaks_by_reason_and_errors(store):
    broke = {"verdict": Judgement.BREAK, "lost": 700, "lost_ms": 1500}
    keep(
        store,
        record(reason=Reason.EVICTED, **broke),
        record(reason=Reason.EVICTED, **broke),
        record(reason=Reason.SYSTEM_CHANGED, **broke),
        record(reason=Reason.SYSTEM_CHANGED, side=True, **broke),
        record(failed=True, status=502, turn=0),
    )
    store.look(look())
    found = lifetime(store)["all"]
    assert found["breaks"] == {
        "evicted": {"count": 2, "lost": 1400, "seconds": 3.0},
        "system_changed": {"count": 1, "lost": 700, "seconds": 1.5},
    }
    assert found["errors"] == 1
    assert found["exchanges"] == 5
    assert found["turns"] == 4


def test_what_was_spared_is_the_sum_of_what_was_recorded(store):
    """No price is made here, whatever the server's speed is; what nobody could price is apart."""

    def spared():
        found = lifetime(store)["all"]["spared"]
        return found["tokens"], found["seconds"], found["unpriced"]

    keep(store, record(evaluated=1000, prompt_ms=100, spared=500, spared_ms=None))
    store.look(look(evaluated=9000.0, prefill=1.0))
    assert spared() == (500, None, 500)
    keep(store, record(spared=3000, spared_ms=6000), record(spared=-300, spared_ms=-500))
    keep(store, record(spared=None, spared_ms=None))
    store.look(look(evaluated=9900.0, prefill=2.0))
    assert spared() == (3200, 5.5, 500)
    assert lifetime(store)["all"]["spared"]["source"].startswith("estimate")


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_and_lifetime_tell_the_same(store, name):
    """At any moment: what no look has counted yet is told beside the totals."""
    for number in range(30):
        spared, price = number * 37 - 200, None if number % 7 == 0 else number * 41 - 200
        keep(store, record(spared=spared, spared_ms=price, failed=number % 5 == 0))
        if number % 4 == 0:
            store.look(look())
        found, sums = lifetime(store), overview(store, name, MS)["sums"]
        parts = (found["all"]["spared"], found["waiting"]["spared"])
        assert sum(each["tokens"] for each in parts) == sums["spared"]
        assert sum(each["unpriced"] for each in parts) == sums["unpriced"]
        seconds = sum(each["seconds"] or 0 for each in parts)
        assert seconds == pytest.approx(sums["spared_seconds"], abs=1e-9)


def test_since_is_never_later_than_the_last_look(store):
    """A clock was a year ahead when it began."""
    store.look(look(NOW + 365 * 86_400))
    store.look(look(NOW))
    found = lifetime(store)
    assert found["since"] == found["targets"][0]["since"] == NOW
