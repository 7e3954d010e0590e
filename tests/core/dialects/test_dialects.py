"""Which API a path speaks, and what its value answers."""

from cacheproxy.core.dialects.dialects import DIALECTS, beside, dialect_of
from tests import transcript


def test_what_each_dialect_answers():
    transcript.holds("dialects.txt", globals())


def test_each_dialect_has_a_name_and_paths_of_its_own():
    """Records keep the names."""
    assert len({each.name for each in DIALECTS}) == len(DIALECTS)
    for each in DIALECTS:
        if each.is_proxied:
            assert dialect_of(each.path) is each
            assert beside(each.path, each) == each.path
