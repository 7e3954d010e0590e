"""The command itself: what it lists is true, and it imports only what runs."""

from __future__ import annotations

import click
import pytest

from cacheproxy.cli.main import COMMANDS, main
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


@pytest.mark.slow
def test_version_help_and_completion_import_no_subcommand():
    """Nothing of ours but the command itself."""
    loaded = loaded_by(
        RUN.format(arguments=["--version"])
        + RUN.format(arguments=["--help"])
        + COMPLETE.format(begun="ser")
    )
    assert {name for name in loaded if name.startswith("cacheproxy.")} == {
        "cacheproxy.cli",
        "cacheproxy.cli.main",
    }
    assert not loaded & {"twisted", "treq", "pluggy", "msgspec", "rich"}


@pytest.mark.slow
def test_a_clients_settings_need_no_proxy_in_this_process():
    """``eval "$(cacheproxy env claude)"`` runs whenever a shell starts."""
    loaded = loaded_by(RUN.format(arguments=["env", "claude", "--proxy", "http://127.0.0.1:9"]))
    assert "cacheproxy.cli.env" in loaded
    assert not loaded & {"twisted", "treq", "pluggy", "rich", "prometheus_client"}


@pytest.mark.slow
def test_twistd_finds_the_plugin_without_importing_the_proxy():
    """``twistd --help`` lists it by what the plugin's file says."""
    loaded = loaded_by(
        "from twisted.application.service import IServiceMaker\n"
        "from twisted.plugin import getPlugins\n"
        "assert 'cacheproxy' in {found.tapname for found in getPlugins(IServiceMaker)}"
    )
    assert not {name for name in loaded if name.startswith("cacheproxy")}
