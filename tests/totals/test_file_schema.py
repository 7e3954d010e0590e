"""The tables of a file, and the columns that one of another program has more or fewer."""

import pytest

from cacheproxy.totals.sums import class_middle, first_class
from tests import transcript

from .builders import keep, store_in


def schema(connection):
    return connection.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()


def opened(folder, *records, change=""):
    """Open a file, keep these, and close it; ``change``: what another program did to its tables."""
    store = store_in(folder)
    keep(store, *records)
    for statement in filter(None, change.split(";")):
        store.connection.execute(statement)
    store.connection.close()
    return store


def test_what_becomes_of_columns(tmp_path):
    transcript.holds("schema.txt", globals() | {"folder": tmp_path})


@pytest.mark.parametrize("wait", [0, 1, 7, 100, 38_100, 10**7])
def test_a_class_is_near_its_waits(wait):
    assert class_middle(first_class(wait)) == pytest.approx(max(1, wait), rel=0.1)
