"""launchd agents: property lists that say what was meant."""

from __future__ import annotations

import plistlib
import re
from pathlib import Path

import pytest

from cacheproxy.units import launchd
from cacheproxy.units.unit import MARK, Unit, UnitError

WORDS = ("--upstream=http://h/<&>\"'", "--enable=ü")


def unit(*words, **environment):
    program = ("/p/bin/python", "-P", "-m", "cacheproxy", "serve", *words)
    return Unit("box", program, Path("/s"), Path("/l/box.log"), 30.0, environment)


def test_it_comes_back_as_it_was():
    """With what XML would take for its own."""
    content = launchd.render(unit(*WORDS, CACHEPROXY_TOKEN="<&>"))
    assert MARK.encode() in content
    found = plistlib.loads(content)
    assert found == {
        "Label": "box",
        "ProgramArguments": ["/p/bin/python", "-P", "-m", "cacheproxy", "serve", *WORDS],
        "WorkingDirectory": "/s",
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 10,
        "ExitTimeOut": 45,
        "ProcessType": "Interactive",
        "StandardOutPath": "/l/box.log",
        "StandardErrorPath": "/l/box.log",
        "EnvironmentVariables": {"CACHEPROXY_TOKEN": "<&>"},
    }
    assert "EnvironmentVariables" not in plistlib.loads(launchd.render(unit()))


def test_control_characters_are_refused():
    """XML has none."""
    with pytest.raises(UnitError, match="control characters"):
        launchd.render(unit("a\0b"))


def test_what_is_run(tmp_path):
    """In the user's own domain; what runs already is ended first."""
    manager = launchd.manager(tmp_path)
    path = tmp_path / "Library/LaunchAgents/x.plist"
    assert manager.path("x") == path
    out, into = manager.start("x")
    assert out.may_fail
    assert re.fullmatch(r"launchctl bootout gui/\d+/x", " ".join(out.line))
    assert re.fullmatch(rf"launchctl bootstrap gui/\d+ {path}", " ".join(into.line))
    assert manager.logs("x", Path("/l"), 5, False).line == ("tail", "-n", "5", "/l")
    assert manager.logs("x", Path("/l"), 5, True).line == ("tail", "-n", "5", "-F", "/l")
