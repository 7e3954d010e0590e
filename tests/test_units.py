"""What systemd and launchd are told, files of our own and others', and commands that fail."""

import os
import plistlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cacheproxy.cli.service import run_all
from cacheproxy.units import MARK, Unit, UnitError, is_foreign, launchd, systemd, write
from tests import transcript

ODD = ["--upstream=http://h:1/a%20b$x", '--config=/a "b"/c\\d.toml', "--enable=ü,b"]


def unit(*words, **environment):
    program = ("/p/bin/python", "-P", "-m", "cacheproxy", "serve", *words)
    return Unit("box", program, Path("/s"), Path("/l/box.log"), 30.0, environment)


def test_what_each_is_told(monkeypatch):
    """Its file, where it is written, and its commands, in the user's own domain."""
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    transcript.holds("units.txt", globals() | {"setenv": monkeypatch.setenv})


def test_a_file_is_for_its_owner_alone(tmp_path):
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
    (tmp_path / "a").write_text("")
    with pytest.raises(UnitError, match=r"cannot write .*/a/x: (Not a directory|File exists)"):
        write(tmp_path / "a/x", b"")


@pytest.mark.slow
def test_commands_run_in_order_until_one_fails(tmp_path):
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
    content = content.replace(b"/p/bin/python", sys.executable.encode()).replace(b"=/s", b"=/tmp")
    assert verify(tmp_path / "good", content) == (0, "")
    code, said = verify(tmp_path / "bad", content.replace(b"Restart=on", b"Restart=of"))
    assert (code, "restart specifier" in said) != (0, False)


def test_launchd_s_file_comes_back_as_it_was():
    words = ("--upstream=http://h/<&>\"'", "--enable=ü")
    found = plistlib.loads(launchd(Path()).render(unit(*words, CACHEPROXY_TOKEN="<&>")))
    assert found["ProgramArguments"][-2:] == [*words]
    assert found["EnvironmentVariables"] == {"CACHEPROXY_TOKEN": "<&>"}
    assert "EnvironmentVariables" not in plistlib.loads(launchd(Path()).render(unit()))
