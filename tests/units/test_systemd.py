"""systemd user units: what systemd itself says of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cacheproxy.units import systemd
from cacheproxy.units.unit import MARK, Unit, UnitError

ODD = ["--upstream=http://h:1/a%20b$x", '--config=/a "b"/c\\d.toml', "--enable=ü,b"]


def unit(*words, name="cacheproxy", state=Path("/tmp"), **environment):
    program = (sys.executable, "-P", "-m", "cacheproxy", "serve", *words)
    return Unit(name, program, state, Path("/tmp/x.log"), 30.0, environment)


def lines(*words, **environment):
    return systemd.render(unit(*words, **environment)).decode().splitlines()


def test_what_it_says():
    """The interpreter's absolute path, when to start again, and how long it may take to stop."""
    found = lines("--port=1")
    assert MARK in found[0]
    assert f'ExecStart="{sys.executable}" "-P" "-m" "cacheproxy" "serve" "--port=1"' in found
    assert "Restart=on-failure" in found
    assert "RestartPreventExitStatus=2" in found
    assert "TimeoutStopSec=45" in found
    assert "ExecReload=/bin/kill -HUP $MAINPID" in found
    assert "WorkingDirectory=/tmp" in found
    assert not [line for line in found if line.startswith("Environment=")]


def test_what_systemd_would_take_for_its_own():
    """Percent, dollar, quote and backslash stay what they are."""
    (line,) = [line for line in lines(*ODD) if line.startswith("ExecStart=")]
    assert '"--upstream=http://h:1/a%%20b$$x"' in line
    assert '"--config=/a \\"b\\"/c\\\\d.toml"' in line
    found = lines(CACHEPROXY_TOKEN='a"b$c%d')
    assert 'Environment="CACHEPROXY_TOKEN=a\\"b$c%%d"' in found


@pytest.mark.parametrize("word", ["a\nExecStartPre=/bin/evil", "a\0b", "a\x1b[0m"])
def test_control_characters_are_refused(word):
    """They would begin a line of their own."""
    with pytest.raises(UnitError, match="control characters"):
        systemd.render(unit(word))
    with pytest.raises(UnitError, match="control characters"):
        systemd.render(unit(TOKEN=word))


def verify(folder, content):
    """What systemd-analyze says of a unit file: exit code and text."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd here")
    folder.mkdir(exist_ok=True)
    file = folder / "cacheproxy.service"
    file.write_bytes(content)
    result = subprocess.run(
        ["systemd-analyze", "--user", "verify", str(file)],
        env=os.environ | {"XDG_RUNTIME_DIR": str(folder), "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if "Failed to" in result.stderr and "initialize" in result.stderr:
        pytest.skip(f"systemd-analyze does not work here: {result.stderr.strip()}")
    return result.returncode, result.stdout + result.stderr


@pytest.mark.slow
def test_systemd_understands_it(tmp_path):
    """With odd options and a token, and it has nothing to say; it does say what is wrong."""
    content = systemd.render(unit(*ODD, CACHEPROXY_TOKEN='a"b$c%d'))
    assert verify(tmp_path / "good", content) == (0, "")
    code, said = verify(tmp_path / "bad", content.replace(b"Restart=on", b"Restart=of"))
    assert (code, "restart specifier" in said) != (0, False)


def test_where_it_is_written(tmp_path, monkeypatch):
    """In the user's own folder; the commands are those of ``cacheproxy service``."""
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    manager = systemd.manager(tmp_path)
    assert manager.path("x") == tmp_path / ".config/systemd/user/x.service"
    monkeypatch.setenv("XDG_CONFIG_HOME", "/c")
    assert systemd.manager(tmp_path).path("x") == Path("/c/systemd/user/x.service")
