"""Pieces: joined as they came, and no more memory than they need."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.http1.buffer import Pieces


@given(st.lists(st.one_of(st.binary(max_size=9), st.integers(4090, 4100).map(bytes))))
def test_they_are_joined_in_their_order(given_pieces):
    """Small ones and large ones, in any order."""
    pieces = Pieces()
    for piece in given_pieces:
        pieces.add(piece)
    assert pieces.joined() == b"".join(given_pieces)
    assert pieces.size == len(pieces.joined())


def test_one_large_piece_is_not_copied():
    piece = bytes(100_000)
    pieces = Pieces()
    pieces.add(b"")
    pieces.add(piece)
    assert pieces.joined() is piece


def test_tiny_pieces_do_not_cost_an_object_each():
    """Pieces of two bytes take little more than their bytes."""
    pieces = Pieces()
    tracemalloc.start()
    for _ in range(1 << 16):
        pieces.add(b"x" * 2)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < 1.5 * (1 << 17)
