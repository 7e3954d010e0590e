"""Texts that come again and again have numbers: as many as there may be, and none that is gone."""

from __future__ import annotations

from cacheproxy.totals.store import OTHER, InMemory

from .builders import record


def models(store):
    """The models of all exchanges, and how many words there are."""
    found = store.rows("SELECT w.text FROM exchanges e LEFT JOIN words w ON w.id = e.model")
    (count,) = store.connection.execute("SELECT count(*) FROM words").fetchone()
    return [row["text"] for row in found], count


def test_numbers_of_a_transaction_that_was_undone_are_forgotten():
    """Else rows would name a word that the file does not have."""
    store = InMemory()
    store.connection.execute("BEGIN")
    store.record(record(model="m"))
    store.connection.execute("ROLLBACK")
    store.forget()
    store.record(record(model="m"))
    assert models(store)[0] == ["m"]


def test_clients_cannot_fill_the_file_with_words():
    """Beyond the most there is one for all others."""
    store = InMemory()
    store.record(record(model="m"))
    texts = [(f"m{number}",) for number in range(5000)]
    store.connection.executemany("INSERT INTO words (text) VALUES (?)", texts)
    for model in ("m", "m7", "another", "one more"):
        store.record(record(model=model))
    assert models(store)[0] == ["m", "m", "m7", OTHER, OTHER]
