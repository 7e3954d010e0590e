"""``cacheproxy service``: what is written and run to keep the proxy running (service.txt)."""

import os
import plistlib
import re
import sys
from pathlib import Path

import pytest

from tests import golden
from tests.cli.invoking import commands, invoke, one_line, printed, transcript

pytestmark = pytest.mark.slow

FAKE = """\
#!/bin/sh
echo "$0 $*" >> {log}
exit {code}
"""
FILE = Path(__file__).with_name("service.txt")


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    """A user of our own, whose systemctl writes down what it is asked, on Linux."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    for program in ("systemctl", "journalctl", "launchctl", "tail"):
        answer(tmp_path, program, 0)
    return tmp_path


def answer(home, program, code):
    file = home / "bin" / program
    file.write_text(FAKE.format(log=home / "ran", code=code))
    file.chmod(0o755)


def ran(home):
    """The commands that have been run."""
    log = home / "ran"
    lines = log.read_text().splitlines() if log.exists() else []
    return [line.rpartition("/bin/")[2] for line in lines]


def unit(home, name="cacheproxy"):
    return home / f".config/systemd/user/{name}.service"


def said(home, *given):
    """What commands say, what they have run, and the files that are there then."""
    text = transcript(*given, home=home, python=sys.executable)
    kept = [path for path in home.rglob("*") if path.is_file() and "bin" not in path.parts]
    files = [path for path in sorted(kept) if path.suffix in (".service", ".plist")]
    more = [f"ran {line}" for line in ran(home)]
    for path in files:
        more += [f"--- {path} {path.stat().st_mode & 0o777:o}", path.read_text()]
    more = "\n".join(more).replace(str(home), "HOME").replace(sys.executable, "PYTHON")
    text = re.sub("(?<=the rules are: ).*", "…", text)
    return re.sub(r"gui/\d+", "gui/UID", f"{text}\n{more}")


SETTINGS = {
    "CACHEPROXY_PORT": "1",
    "CACHEPROXY_VERBOSE": "true",
    "CACHEPROXY_EDIT_REMOTE": "false",
    "CACHEPROXY_CONFIG": "a.toml",
    "CACHEPROXY_TOKEN": 'kanarien"vogel',
    "A_KEY": "zeisig",
    "CACHEPROXY_SECRET": "fink",
}
TABLES = (
    'max_body = 7\n[[upstream]]\nname = "a"\nurl = "http://localhost:1"\nkey_env = "A_KEY"\n'
    '[alarm]\nwebhook = "http://localhost:2"\nsecret_env = "CACHEPROXY_SECRET"\n'
)


@pytest.mark.parametrize("name", golden.sections(FILE))
def test_what_it_says_and_does(home, name, monkeypatch):
    """Each line, each command that is run, and the files that are left.

    The service would not see the environment: it is passed on, paths become absolute, and the
    command line wins. Secrets are on none, but in the unit's file, which its owner alone can read.
    """
    if name.startswith("the environment"):
        (home / "a.toml").write_text(TABLES)
        for variable, value in SETTINGS.items():
            monkeypatch.setenv(variable, value)
    if name.startswith("a unit of somebody else"):
        unit(home).parent.mkdir(parents=True)
        unit(home).write_text("[Service]\nExecStart=/bin/true\n")
    golden.agrees(FILE, name, said(home, *commands(FILE, name)))


def test_a_dry_run_says_exactly_what_install_does(home):
    text = printed("service", "install", "--dry-run", "--port", "9000")
    assert ran(home) == []
    assert not (home / ".config").exists()
    assert not (home / ".local").exists()
    printed("service", "install", "--port", "9000")
    assert unit(home).read_text() in text
    assert [line for line in text.splitlines() if line.startswith("would run ")] == [
        f"would run {line}" for line in ran(home)
    ]
    assert (home / ".local/state/cacheproxy").is_dir()


def test_a_service_manager_that_fails(home):
    """What failed is named; its exit code is that of status; uninstall goes on."""
    printed("service", "install")
    answer(home, "systemctl", 3)
    failed = one_line(invoke("service", "install"), 1)
    assert "systemctl --user daemon-reload failed (exit code 3)" in failed
    assert invoke("service", "status").exit_code == 3
    answer(home, "systemctl", 1)  # it may not run
    printed("service", "uninstall")
    assert not unit(home).exists()


@pytest.mark.parametrize(
    ("platform", "words"), [("win32", "Task Scheduler"), ("plan9", "no service manager for plan9")]
)
def test_elsewhere(monkeypatch, platform, words):
    """One line, with the program to start; macOS has launchd."""
    monkeypatch.setattr(sys, "platform", platform)
    line = one_line(invoke("service", "install", "--dry-run"), 1)
    assert words in line
    assert f"{sys.executable} -P -m cacheproxy serve" in line


def test_launchd_is_that_of_macos(home, monkeypatch):
    """Its file is a property list."""
    monkeypatch.setattr(sys, "platform", "darwin")
    printed("service", "install", "--port", "9000")
    found = plistlib.loads((home / "Library/LaunchAgents/cacheproxy.plist").read_bytes())
    assert found["ProgramArguments"][-1] == "--port=9000"
    assert Path(found["StandardOutPath"]).parent.is_dir()
