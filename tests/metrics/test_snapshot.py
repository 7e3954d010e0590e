"""What is so at the moment of asking."""

import platform
from pathlib import Path
from types import SimpleNamespace

import pytest

from cacheproxy.core.kinds.status import Look, Slot, UpstreamState
from cacheproxy.core.rules.fold import Failures
from cacheproxy.metrics import MetricsSources
from cacheproxy.web.monitoring import content
from tests import golden
from tests.metrics.builders import families

UP = "http://localhost:8080"


FILE = Path(__file__).with_name("standing.txt")
PATHS = (b"/v1/messages", b"/_cacheproxy/metrics", b"/v1/models")
CHANNELS = [
    *(SimpleNamespace(requests=[SimpleNamespace(path=path)]) for path in PATHS),
    SimpleNamespace(requests=[]),
    SimpleNamespace(requests=[object()]),  # whose head has not come in full
]
SLOTS = (Slot(0, 1000, 500, busy=True), Slot(1, 1000, 0, busy=False))


def failed(**names):
    """Failures by their names, each with the figures that differ from 0."""
    found = Failures()
    for name, figures in names.items():
        for figure, value in figures.items():
            setattr(found.of(name), figure, value)
    return found


def page(looks=(), failures=None, channels=()):
    """What the page says of this moment, without the words that explain it."""
    sources = MetricsSources("1.2", failures or Failures(), lambda: 100.0, lambda: looks)
    lines = content(families(None, sources, channels=channels)).body.decode().splitlines()
    shown = "\n".join(line.removeprefix("cacheproxy_") for line in lines if line[0] != "#")
    return shown.replace(platform.python_version(), "PYTHON").replace(UP, "UP")


STAMP = {"failed": 2, "timed_out": 1, "left_out": True}
CASES = {
    "nothing yet": {},
    # the page that is being asked for does not count itself
    "connections and what is under way on them": {"channels": CHANNELS},
    **{
        f"an upstream as it was seen last: {state}": {"looks": [Look(UP, 1.7e9, 90.0, state)]}
        for state in UpstreamState
    },
    "slots and what they hold": {"looks": [Look(UP, 1.7e9, 90.0, UpstreamState.UP, slots=SLOTS)]},
    "failures by name and kind": {"failures": failed(stamp=STAMP, plugin={"dropped": 7})},
    # a series that stood twice on the page would make Prometheus refuse all of it
    "names that are alike when cut are one": {
        "failures": failed(**{"x" * 200 + end: {"failed": 1, "left_out": True} for end in "ab"})
    },
}


@pytest.mark.parametrize("name", CASES)
def test_what_stands(name):
    golden.agrees(FILE, name, page(**CASES[name]))


def test_no_page_is_kept_that_no_test_has():
    golden.complete(FILE, CASES)


def test_thousands_of_names_are_not_shown():
    """As many as there may be rules in a configuration that nobody reads any more."""
    shown = page(failures=failed(**{f"rule-{n}\n": {"failed": 1} for n in range(3000)}))
    assert shown.count('failures_total{kind="failed"') == 200
