"""Every key has its own order of names."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.route.rendezvous import ranked

NAMES = st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=8, unique=True)


@given(st.text(max_size=40), NAMES, st.randoms())
def test_the_order_is_that_of_the_key_whatever_order_the_names_had(key, names, chance):
    """So that several proxies agree."""
    shuffled = list(names)
    chance.shuffle(shuffled)
    assert ranked(key, names) == ranked(key, shuffled)
    assert sorted(ranked(key, names)) == sorted(names)


@given(st.lists(st.text(max_size=12), max_size=30), NAMES, st.data())
def test_where_a_name_goes_away_only_its_own_keys_move(keys, names, data):
    """And each to the next in its order."""
    gone = data.draw(st.sampled_from(names))
    left = [name for name in names if name != gone]
    for key in keys:
        before, after = ranked(key, names), ranked(key, left)
        assert after == [name for name in before if name != gone]
        if before[0] != gone:
            assert after[0] == before[0]


def test_keys_spread_evenly():
    """1,000 keys over three names: each has a third, within a few standard deviations of 15."""
    counts = Counter(ranked(f"key{number}", ["a", "b", "c"])[0] for number in range(1000))
    assert all(260 < count < 410 for count in counts.values())
    moved = Counter(
        ranked(f"key{n}", ["a", "b"])[0]
        for n in range(1000)
        if ranked(f"key{n}", ["a", "b", "c"])[0] == "c"
    )
    assert set(moved) == {"a", "b"}
