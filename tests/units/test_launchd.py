"""launchd agents: property lists that say what was meant."""

from __future__ import annotations

import plistlib
import re
import shutil
import subprocess
import xml.dom.minidom
from pathlib import Path

import pytest

from cacheproxy.units import launchd
from cacheproxy.units.unit import MARK, Unit, UnitError

# launchd.plist(5): keys and the types of their values.
KEYS = {
    "Label": str,
    "ProgramArguments": list,
    "WorkingDirectory": str,
    "RunAtLoad": bool,
    "KeepAlive": dict,
    "ThrottleInterval": int,
    "ExitTimeOut": int,
    "ProcessType": str,
    "StandardOutPath": str,
    "StandardErrorPath": str,
    "EnvironmentVariables": dict,
}
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


def test_what_plutil_would_look_at(tmp_path):
    """Well-formed XML with Apple's document type, known keys, values of the right types."""
    content = launchd.render(unit(*WORDS, CACHEPROXY_TOKEN="x"))
    document = xml.dom.minidom.parseString(content)
    assert document.doctype.publicId == "-//Apple//DTD PLIST 1.0//EN"
    assert document.documentElement.tagName == "plist"
    assert document.documentElement.getAttribute("version") == "1.0"
    for key, value in plistlib.loads(content).items():
        assert type(value) is KEYS[key], key
    keys = re.findall(r"^\t<key>(\w+)</key>", content.decode(), re.MULTILINE)
    assert len(keys) == len(set(keys))
    if shutil.which("plutil"):
        file = tmp_path / "x.plist"
        file.write_bytes(content)
        subprocess.run(["plutil", "-lint", str(file)], check=True, timeout=120)


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
