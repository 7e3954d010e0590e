"""A memo whose windows and first bytes are so few that short texts reach every corner of it."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cacheproxy.core.document import compare, memo, reader


@contextmanager
def small_steps() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare, "_AT_ONCE", 4)
        patch.setattr(memo.Memo, "head", 6)
        patch.setattr(reader, "_LEAST", 2)
        patch.setattr(reader, "_WINDOW", 3)
        patch.setattr(reader, "_LONG", 12)
        yield
