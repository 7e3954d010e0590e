"""Names with ``*`` and ``?`` in them."""

from __future__ import annotations

import pytest

from cacheproxy.core.route.pattern import fits


@pytest.mark.parametrize(
    ("name", "pattern", "does"),
    [
        ("claude", "claude", True),
        ("claude", "*", True),
        ("", "*", True),
        ("claude-opus-4", "claude-*", True),
        ("qwen3", "qwen?", True),
        ("qwen", "qwen?", False),
        ("Claude", "claude", False),
        ("", "?*", False),
    ],
)
def test_a_star_is_any_text_and_a_question_mark_one_character(name, pattern, does):
    """Capital letters count."""
    assert fits(name, pattern) is does
