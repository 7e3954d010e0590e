"""The command itself: what it lists and offers is true, and it imports only what runs."""

import re
import subprocess
from importlib.metadata import version

import click
import pytest
from click.testing import CliRunner

from cacheproxy.cli.main import COMMANDS, main
from tests import transcript
from tests.cli.invoking import printed, refused
from tests.peer import NOBODY
from tests.test_imports import loaded_by

RUN = """
import contextlib, io
from cacheproxy.cli.main import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    main({arguments!r}, standalone_mode=False)
"""
COMPLETE = """
from click.shell_completion import BashComplete
from cacheproxy.cli.main import main
assert BashComplete(main, {{}}, "cacheproxy", "").get_completions([], {begun!r})
"""


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_is_listed_with_the_first_line_of_its_help(name):
    """So that neither the list nor shell completion has to import it."""
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert command.name == name
    assert command.help is not None
    assert command.help.partition("\n")[0] == COMMANDS[name]


def test_the_command_tells_its_version_and_how_the_proxy_is_run():
    """Also with -h."""
    assert printed("--version").split()[-1] == version("cacheproxy-llm")
    for flag in ("-h", "--help"):
        assert "twistd -n cacheproxy" in printed(flag)


def said(*words):
    """All but the names of most of the clients that are installed."""
    return re.sub("(?<=; there are aider, claude, ).*", "…", refused(*words))


def test_a_mistake_is_one_line():
    transcript.holds("mistakes.txt", globals() | {"NOBODY": NOBODY})


@pytest.mark.slow
def test_version_help_and_completion_import_no_subcommand():
    """Nothing of ours but the command itself; plugins where they are asked for their commands.

    ``settings`` has what the tools' commands are made with.
    """
    loaded = loaded_by(RUN.format(arguments=["--version"]))
    assert {name for name in loaded if name.startswith("cacheproxy.")} == {
        "cacheproxy.cli",
        "cacheproxy.cli.main",
    }
    assert not loaded & {"twisted", "treq", "pluggy", "msgspec", "rich"}
    loaded = loaded_by(RUN.format(arguments=["--help"]) + COMPLETE.format(begun="ser"))
    assert {name for name in loaded if name.startswith("cacheproxy.cli.")} == {
        "cacheproxy.cli.main",
        "cacheproxy.cli.settings",
    }
    assert not loaded & {"twisted", "treq", "rich"}


@pytest.mark.slow
def test_a_clients_settings_need_no_proxy_in_this_process():
    """``eval "$(cacheproxy env claude)"`` runs whenever a shell starts."""
    run = RUN.format(arguments=["env", "claude", "--proxy", "http://127.0.0.1:9"])
    run = run.replace("    main(", "    with contextlib.suppress(SystemExit): main(")  # no proxy: 1
    loaded = loaded_by(run)
    assert "cacheproxy.cli.env" in loaded
    assert not loaded & {"twisted", "treq", "rich", "prometheus_client"}
    packages = {name.partition(".")[0] for name in loaded if name.startswith("cacheproxy_")}
    assert packages == {"cacheproxy_claude_code"}


@pytest.mark.slow
def test_twistd_finds_the_plugin_without_importing_the_proxy():
    """``twistd --help`` lists it by what the plugin's file says."""
    loaded = loaded_by(
        "from twisted.application.service import IServiceMaker\n"
        "from twisted.plugin import getPlugins\n"
        "assert 'cacheproxy' in {found.tapname for found in getPlugins(IServiceMaker)}"
    )
    assert not {name for name in loaded if name.startswith("cacheproxy")}


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
