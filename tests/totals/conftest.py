"""What the tests of this folder share."""

import pytest

from .builders import store_in


@pytest.fixture
def store(tmp_path):
    """An empty store."""
    store = store_in(tmp_path / "state")
    yield store
    store.connection.close()
