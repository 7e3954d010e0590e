"""What systemd and launchd are told, files of our own and others', and commands that fail."""

from __future__ import annotations

import os
import plistlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cacheproxy.cli.service import run_all
from cacheproxy.units import MARK, Unit, UnitError, is_foreign, launchd, systemd, write


def test_a_file_is_for_its_owner_alone(tmp_path):
    """It may hold a token. Folders are made; what was there is replaced."""
    file = tmp_path / "a/b/c"
    write(file, MARK.encode())
    write(file, MARK.encode())
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in file.parent.iterdir()] == ["c"]


def test_whose_file_it_is(tmp_path):
    """Ours has the mark; a file that is not there is nobody's."""
    file = tmp_path / "x"
    assert not is_foreign(file)
    file.write_text(f"# {MARK}\n")
    assert not is_foreign(file)
    file.write_text("[Unit]\n")
    assert is_foreign(file)


def test_what_cannot_be_written(tmp_path):
    """Is said in one line."""
    (tmp_path / "a").write_text("")
    with pytest.raises(UnitError, match=r"cannot write .*/a/x: (Not a directory|File exists)"):
        write(tmp_path / "a/x", b"")


@pytest.mark.slow
def test_commands_run_in_order_until_one_fails(tmp_path):
    """Those that may fail do not count."""
    marks = [tmp_path / name for name in "abc"]
    touch = [f"touch {mark}" for mark in marks]
    manager = systemd(tmp_path)

    def told(*commands):
        run_all(manager, commands, "x", dry_run=False)

    with pytest.raises(UnitError, match=r"^false failed \(exit code 1\)"):
        told(touch[0], "-false", touch[1], "false", touch[2])
    assert [mark.exists() for mark in marks] == [True, True, False]
    with pytest.raises(UnitError, match="cannot run nosuch-command: No such file"):
        told("nosuch-command")


ODD = ["--upstream=http://h:1/a%20b$x", '--config=/a "b"/c\\d.toml', "--enable=ü,b"]


def unit(*words, name="cacheproxy", state=Path("/tmp"), **environment):
    program = (sys.executable, "-P", "-m", "cacheproxy", "serve", *words)
    return Unit(name, program, state, Path("/tmp/x.log"), 30.0, environment)


def lines(*words, **environment):
    return systemd(Path()).render(unit(*words, **environment)).decode().splitlines()


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
def test_systemd_refuses_control_characters(word):
    """They would begin a line of their own."""
    with pytest.raises(UnitError, match="control characters"):
        systemd(Path()).render(unit(word))
    with pytest.raises(UnitError, match="control characters"):
        systemd(Path()).render(unit(TOKEN=word))


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
    content = systemd(Path()).render(unit(*ODD, CACHEPROXY_TOKEN='a"b$c%d'))
    assert verify(tmp_path / "good", content) == (0, "")
    code, said = verify(tmp_path / "bad", content.replace(b"Restart=on", b"Restart=of"))
    assert (code, "restart specifier" in said) != (0, False)


def test_where_it_is_written(tmp_path, monkeypatch):
    """In the user's own folder; the commands are those of ``cacheproxy service``."""
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    manager = systemd(tmp_path)
    assert manager.path("x") == tmp_path / ".config/systemd/user/x.service"
    monkeypatch.setenv("XDG_CONFIG_HOME", "/c")
    assert systemd(tmp_path).path("x") == Path("/c/systemd/user/x.service")


WORDS = ("--upstream=http://h/<&>\"'", "--enable=ü")


def agent(*words, **environment):
    program = ("/p/bin/python", "-P", "-m", "cacheproxy", "serve", *words)
    return Unit("box", program, Path("/s"), Path("/l/box.log"), 30.0, environment)


def test_it_comes_back_as_it_was():
    """With what XML would take for its own."""
    content = launchd(Path()).render(agent(*WORDS, CACHEPROXY_TOKEN="<&>"))
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
    assert "EnvironmentVariables" not in plistlib.loads(launchd(Path()).render(agent()))


def test_launchd_refuses_control_characters():
    """XML has none."""
    with pytest.raises(UnitError, match="control characters"):
        launchd(Path()).render(agent("a\0b"))


def test_what_launchd_is_told(tmp_path):
    """In the user's own domain; what runs already is ended first."""
    manager = launchd(tmp_path)
    path = tmp_path / "Library/LaunchAgents/x.plist"
    assert manager.path("x") == path
    out, into = manager.start
    assert out.startswith("-")
    log = Path("/l")
    assert re.fullmatch(r"launchctl bootout gui/\d+/x", " ".join(manager.words(out, "x", log)))
    told = " ".join(manager.words(into, "x", log))
    assert re.fullmatch(rf"launchctl bootstrap gui/\d+ {path}", told)
    assert manager.words(manager.logs, "x", log, 5) == ["tail", "-n", "5", "/l"]
    assert manager.words(manager.logs_on, "x", log, 5) == ["tail", "-n", "5", "-F", "/l"]
