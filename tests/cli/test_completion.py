"""Shell completion: click's own, for the whole command."""

from __future__ import annotations

import subprocess

import pytest
from click.testing import CliRunner

from cacheproxy.cli.main import main


def complete(instruction, **environ):
    environ = {"_CACHEPROXY_COMPLETE": instruction, **environ}
    result = CliRunner().invoke(main, env=environ, prog_name="cacheproxy")
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("cacheproxy ser", {"serve", "service"}),
        ("cacheproxy service un", {"uninstall"}),
        ("cacheproxy env op", {"openclaw", "opencode"}),
        ("cacheproxy serve --max-h", {"--max-head"}),
    ],
)
def test_what_may_follow(words, offered):
    """Commands, clients, and the proxy's options."""
    count = str(len(words.split()) - 1)
    text = complete("bash_complete", COMP_WORDS=words, COMP_CWORD=count)
    assert {line.partition(",")[2] for line in text.splitlines()} == offered


@pytest.mark.slow
def test_the_script_of_each_shell():
    """It calls the command back for what may follow; bash accepts its own without a word."""
    for shell in ("bash", "zsh", "fish"):
        script = complete(f"{shell}_source")
        assert f"_CACHEPROXY_COMPLETE={shell}_complete" in script
    script = complete("bash_source") + "\ncomplete -p cacheproxy"
    result = subprocess.run(["bash", "-c", script], capture_output=True, check=True, timeout=120)
    assert b"_cacheproxy_completion" in result.stdout
    assert result.stderr == b""
