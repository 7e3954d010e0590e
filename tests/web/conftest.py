"""What the tests of this folder share."""

import pytest

from tests.proxy.harness import Upstream


@pytest.fixture(scope="module")
def upstream():
    upstream = Upstream()
    yield upstream
    upstream.close()
