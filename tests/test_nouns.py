"""A kind of server, a dialect or a client is named at home, and almost nowhere else."""

from __future__ import annotations

import pytest

from tests.nouns import NOUNS, naming

MOST = {"dialect": 10, "server": 10, "client": 0}


@pytest.mark.parametrize("noun", NOUNS)
def test_a_noun_is_named_at_home(noun):
    """Elsewhere its value is asked. Whoever needs one more file, needs another field of it."""
    files = naming(NOUNS[noun])
    assert len(files) <= MOST[noun], files
