"""A request asks an upstream for a model by the name that it has there."""

from __future__ import annotations

from cacheproxy.core.route.model import NAME, asking_for
from cacheproxy.testing import request


def test_the_name_is_replaced_and_nothing_else():
    """Spaces, order and number spelling stay."""
    asked = request('{"max_tokens" : 1e1,"model": "claude-\\u0041", "messages": []}')
    after, report = asking_for(asked, "qwen3")
    assert after.body == b'{"max_tokens" : 1e1,"model": "qwen3", "messages": []}'
    assert report is not None
    assert (report.rule, [edit.path for edit in report.edits]) == (NAME, ["/model"])
    assert asking_for(after, "qwen3") == (after, None)


def test_a_request_that_names_none_goes_as_it_came():
    """Or that cannot be read."""
    for body in ('{"messages": []}', '{"model": 7}', "nonsense", ""):
        asked = request(body)
        assert asking_for(asked, "qwen3") == (asked, None)
