"""The terminal, where there may be none."""

import sys

from cacheproxy.child.foreground import is_drawn_on


def test_without_terminals_settings_nobody_draws(monkeypatch):
    """As on Windows, whose Python has no termios."""
    monkeypatch.setitem(sys.modules, "termios", None)
    assert not is_drawn_on()
