"""Each reason in words."""

from cacheproxy.core.conversation.verdict import Reason
from cacheproxy.core.judge.reasons import PHRASES


def test_every_reason_has_a_phrase_of_its_own():
    assert set(PHRASES) == set(Reason)
    assert len({*PHRASES.values()}) == len(PHRASES)


def test_a_phrase_fits_into_a_table():
    """And its first letter can be made small in the middle of a line."""
    for phrase in PHRASES.values():
        assert 10 < len(phrase) < 60
        assert phrase[0].isupper()
        assert not phrase.endswith(".")
