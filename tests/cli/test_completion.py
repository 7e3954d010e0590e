"""Shell completion: click's own, for the whole command."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.proxy.harness import environment

pytestmark = pytest.mark.slow

PROGRAM = "from cacheproxy.cli.main import main; main(prog_name='cacheproxy')"


def complete(folder, instruction, **environ):
    result = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM],
        env=environment(folder, _CACHEPROXY_COMPLETE=instruction, **environ),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell(tmp_path, shell):
    """It calls the command back for what may follow."""
    script = complete(tmp_path, f"{shell}_source")
    assert f"_CACHEPROXY_COMPLETE={shell}_complete" in script
    assert "cacheproxy" in script


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("cacheproxy ser", {"serve", "service"}),
        ("cacheproxy service un", {"uninstall"}),
        ("cacheproxy env op", {"openclaw", "opencode"}),
        ("cacheproxy serve --max-h", {"--max-head"}),
    ],
)
def test_what_may_follow(tmp_path, words, offered):
    """Commands, clients, and the proxy's options."""
    count = str(len(words.split()) - 1)
    text = complete(tmp_path, "bash_complete", COMP_WORDS=words, COMP_CWORD=count)
    assert {line.partition(",")[2] for line in text.splitlines()} == offered


def test_bash_accepts_the_script(tmp_path):
    """Without a word."""
    script = complete(tmp_path, "bash_source")
    result = subprocess.run(
        ["bash", "-c", script + "\ncomplete -p cacheproxy"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert "_cacheproxy_completion" in result.stdout
    assert result.stderr == ""
