"""What a report says of an edit that cannot be made."""

from __future__ import annotations

from cacheproxy import CodeRule, Edit
from cacheproxy.core.rules.fold import normalize
from cacheproxy.testing import request


class Path(str):
    """A path of somebody's own, which quotes a prompt where it fails."""

    __slots__ = ()

    def startswith(self, *_):
        raise ValueError("kanarienvogel")

    split = partition = __bool__ = startswith


def test_an_exception_that_is_not_ours_is_named_without_its_text():
    """It may quote a prompt."""
    odd = CodeRule("odd", "makes edits that cannot be", lambda *_: [Edit(Path("/system"), "x", "")])
    (report,) = normalize(request({"system": "a"}), [odd]).reports
    assert report.error == "ValueError"
