"""``cacheproxy service``: what is written and run to keep the proxy running."""

from __future__ import annotations

import os
import plistlib
import shlex
import sys
from functools import partial
from pathlib import Path

import pytest

from cacheproxy.units import MARK
from tests.cli.invoking import invoke, one_line, printed

pytestmark = pytest.mark.slow

FAKE = """\
#!/bin/sh
echo "$0 $*" >> {log}
exit {code}
"""


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


run, done = partial(invoke, "service"), partial(printed, "service")


def refused(*arguments, code=1):
    return one_line(run(*arguments), code)


def unit(home, name="cacheproxy"):
    return home / f".config/systemd/user/{name}.service"


def started(home, name="cacheproxy"):
    """The words of the unit's program."""
    text = unit(home, name).read_text()
    (line,) = [line for line in text.splitlines() if line.startswith("ExecStart=")]
    return shlex.split(line.removeprefix("ExecStart="))


def test_install_writes_the_unit_and_starts_it(home):
    """With this Python, and the options given."""
    text = done("install", "--port", "9000", "--verbose")
    assert started(home)[:5] == [sys.executable, "-P", "-m", "cacheproxy", "serve"]
    assert started(home)[5:] == ["--port=9000", "--verbose"]
    assert unit(home).stat().st_mode & 0o777 == 0o600
    assert (home / ".local/state/cacheproxy").is_dir()
    assert ran(home) == [
        "systemctl --user daemon-reload",
        "systemctl --user enable cacheproxy.service",
        "systemctl --user restart cacheproxy.service",
    ]
    assert "loginctl enable-linger" in text


def test_a_dry_run_writes_and_runs_nothing_but_prints_it(home):
    """Exactly what install then does."""
    text = done("install", "--dry-run", "--port", "9000")
    assert ran(home) == []
    assert not (home / ".config").exists()
    assert not (home / ".local").exists()
    done("install", "--port", "9000")
    assert unit(home).read_text() in text
    assert f"would write {unit(home)}:" in text
    assert [line for line in text.splitlines() if line.startswith("would run ")] == [
        f"would run {line}" for line in ran(home)
    ]


def test_the_environment_is_passed_on(home, monkeypatch):
    """The service would not see it. The command line wins, and paths become absolute."""
    (home / "a.toml").write_text("max_body = 7")
    monkeypatch.setenv("CACHEPROXY_UPSTREAM", "http://h:1")
    monkeypatch.setenv("CACHEPROXY_PORT", "1")
    monkeypatch.setenv("CACHEPROXY_VERBOSE", "true")
    monkeypatch.setenv("CACHEPROXY_EDIT_REMOTE", "false")
    monkeypatch.setenv("CACHEPROXY_CONFIG", "a.toml")
    done("install", "--port", "2", "--capture", "~/caps")
    assert set(started(home)[5:]) == {
        f"--config={home}/a.toml",
        "--upstream=http://h:1",
        "--port=2",
        f"--capture={home}/caps",
        "--verbose",
    }


def test_a_token_is_on_no_command_line(home, monkeypatch):
    """Nor in what a dry run prints: it is in the unit's file, which its owner alone can read."""
    monkeypatch.setenv("CACHEPROXY_TOKEN", 'kanarien"vogel')
    assert "kanarien" not in done("install", "--dry-run")
    assert "(the token)" in done("install", "--dry-run")
    assert "kanarien" not in done("install")
    assert "kanarien" not in " ".join(started(home))
    assert 'Environment="CACHEPROXY_TOKEN=kanarien\\"vogel"' in unit(home).read_text()
    done("install", "--token", "zeisig")
    assert 'Environment="CACHEPROXY_TOKEN=zeisig"' in unit(home).read_text()
    assert "zeisig" not in " ".join(started(home))


def test_the_secrets_that_the_file_names_are_passed_on(home, monkeypatch):
    """Those of upstreams and of the alarm: the service would not see them."""
    table = '[[upstream]]\nname = "a"\nurl = "http://localhost:1"\nkey_env = "A_KEY"\n'
    alarm = '[alarm]\nwebhook = "http://localhost:2"\nsecret_env = "CACHEPROXY_SECRET"\n'
    (home / "a.toml").write_text(table + alarm)
    monkeypatch.setenv("A_KEY", "kanarienvogel")
    monkeypatch.setenv("CACHEPROXY_SECRET", "zeisig")
    assert "zeisig" not in done("install", "--config", "a.toml", "--dry-run")
    done("install", "--config", "a.toml")
    assert 'Environment="A_KEY=kanarienvogel"' in unit(home).read_text()
    assert 'Environment="CACHEPROXY_SECRET=zeisig"' in unit(home).read_text()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--port", "http"], "--port must be"),
        (["--upstream", "h"], "write it like http://localhost:8080"),
        (["--enable", "nosuch"], "no rule is called nosuch"),
        (["--config", "none.toml"], "none.toml: No such file"),
        (["--nonsense"], "No such option '--nonsense'"),
        (["--name", "a/b"], "--name takes letters"),
    ],
)
def test_what_is_wrong_is_told_now(home, given, words):
    """And not by a service that does not start."""
    assert words in refused("install", *given, code=2)
    assert ran(home) == []
    assert not unit(home).exists()


def test_a_unit_of_somebody_else_stays(home):
    """Unless --force is given; our own is written anew."""
    unit(home).parent.mkdir(parents=True)
    unit(home).write_text("[Service]\nExecStart=/bin/true\n")
    assert "--force" in refused("install")
    assert "--force" in refused("install", "--dry-run")
    assert "--force" in refused("uninstall")
    assert ran(home) == []
    assert MARK not in unit(home).read_text()
    done("install", "--force")
    done("install", "--port", "5")
    assert started(home)[5:] == ["--port=5"]


def test_uninstall(home):
    """Stopped, removed, forgotten; state and configuration stay."""
    done("install")
    ran_before = len(ran(home))
    assert "would remove" in done("uninstall", "--dry-run")
    assert unit(home).exists()
    answer(home, "systemctl", 1)  # it may not run
    done("uninstall")
    assert not unit(home).exists()
    assert ran(home)[ran_before:] == [
        "systemctl --user disable --now cacheproxy.service",
        "systemctl --user daemon-reload",
    ]
    assert (home / ".local/state/cacheproxy").is_dir()
    assert "is not installed" in refused("uninstall")


def test_a_service_that_does_not_start(home):
    """What failed is named."""
    answer(home, "systemctl", 3)
    assert "systemctl --user daemon-reload failed (exit code 3)" in refused("install")


def test_status_and_logs(home):
    """The service manager's own words, and its exit code."""
    assert "cacheproxy service install" in refused("status", code=4)
    done("install", "--name", "two")
    answer(home, "systemctl", 3)
    assert run("status", "--name", "two").exit_code == 3
    done("logs", "--name", "two", "-n", "5", "--follow")
    assert ran(home)[-2:] == [
        "systemctl --user status --no-pager two.service",
        "journalctl --user --unit two.service --lines 5 --follow",
    ]
    assert done("logs", "--dry-run").startswith("would run journalctl")
    assert done("status", "--dry-run").startswith("would run systemctl")


def test_a_second_service_has_a_folder_of_its_own(home):
    """Totals are one process's alone."""
    done("install", "--name", "two")
    assert f"WorkingDirectory={home}/.local/state/cacheproxy/two" in unit(home, "two").read_text()
    assert f"--state-dir={home}/.local/state/cacheproxy/two" in started(home, "two")


def test_launchd(home, monkeypatch):
    """On macOS; asked for by name elsewhere."""
    monkeypatch.setattr(sys, "platform", "darwin")
    done("install", "--port", "9000")
    file = home / "Library/LaunchAgents/cacheproxy.plist"
    found = plistlib.loads(file.read_bytes())
    assert found["ProgramArguments"][-1] == "--port=9000"
    assert Path(found["StandardOutPath"]).parent.is_dir()
    assert [line.split()[1] for line in ran(home)] == ["bootout", "bootstrap"]
    done("logs")
    assert ran(home)[-1] == f"tail -n 100 {found['StandardOutPath']}"
    done("uninstall")
    assert not file.exists()
    monkeypatch.setattr(sys, "platform", "linux")
    assert "LaunchAgents" in done("install", "--dry-run", "--kind", "launchd")


def test_windows(monkeypatch):
    """One line about the task scheduler, with the program to start."""
    monkeypatch.setattr(sys, "platform", "win32")
    line = refused("install", "--dry-run")
    assert "Task Scheduler" in line
    assert f"{sys.executable} -P -m cacheproxy serve" in line


def test_elsewhere(monkeypatch):
    """The program is named."""
    monkeypatch.setattr(sys, "platform", "plan9")
    assert "no service manager for plan9" in refused("status")
