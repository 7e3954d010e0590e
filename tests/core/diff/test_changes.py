"""What differs between two JSON values, and where."""

import pytest

from cacheproxy.core.diff.changes import differences
from cacheproxy.core.diff.kind import ChangeKind


def found(was, now):
    return [(each.kind, each.path, each.was, each.now) for each in differences(was, now, ())]


def tools(**descriptions):
    return [{"name": name, "description": text} for name, text in descriptions.items()]


def test_a_tool_that_has_gone_stands_where_it_was_and_all_others_where_they_are():
    """They are matched by name, wherever in the list."""
    was, now = tools(gone="x", b="was", c="same", d=""), tools(new="é", c="same", b="now", d="")
    assert found(was, now) == [
        (ChangeKind.REORDERED, "", "b, c, d", "c, b, d"),
        (ChangeKind.REMOVED, "/0", '{"name": "gone", "description": "x"}', ""),
        (ChangeKind.ADDED, "/0", "", '{"name": "new", "description": "é"}'),
        (ChangeKind.TEXT, "/2/description", "was", "now"),
    ]


@pytest.mark.parametrize(
    ("was", "now", "wanted"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, [(ChangeKind.REORDERED, "", "a, b", "b, a")]),
        (
            {"a": 1},
            {"b": None},
            [(ChangeKind.REMOVED, "/a", "1", ""), (ChangeKind.ADDED, "/b", "", "null")],
        ),
        ([], tools(a=""), [(ChangeKind.ADDED, "/0", "", '{"name": "a", "description": ""}')]),
        (1, True, [(ChangeKind.TEXT, "", "1", "true")]),
        ({"a": [1, None]}, {"a": [1, None]}, []),
    ],
)
def test_members_items_and_plain_values(was, now, wanted):
    assert found(was, now) == wanted
