"""Commands of plugins: listed, run, refused; and what is said of those that are not installed."""

from tests.cli.invoking import invoke, printed, refused

COMMAND = '''
import click
@click.command("{name}")
@click.argument("word")
def _command(word):
    """Say a word.

    More of it.
    """
    click.echo("said " + word)
@hookimpl
def cacheproxy_commands():
    return [_command]
'''


def test_a_plugins_command_is_listed_and_run(install):
    install("saying", COMMAND.format(name="say-it"))
    assert "say-it" in printed("--help")
    assert "Say a word." in printed("--help")
    assert printed("say-it", "hello") == "said hello\n"


def test_a_name_that_is_taken_and_a_plugin_that_raises_are_one_line_each(install):
    """Both are left out; all other commands are there."""
    install("a-first", COMMAND.format(name="say-it"))
    install("b-second", COMMAND.format(name="say-it"))
    install("c-third", COMMAND.format(name="serve"))
    install("d-fourth", "@hookimpl\ndef cacheproxy_commands(): raise OSError('no disk')")
    install("e-fifth", "@hookimpl\ndef cacheproxy_commands(): return ['nothing']")
    result = invoke("--help")
    assert result.exit_code == 0
    assert "Run the proxy until it is stopped." in result.stdout
    assert result.stderr.splitlines() == [
        "cacheproxy: plugin b-second: the command say-it is there already",
        "cacheproxy: plugin c-third: the command serve is there already",
        "cacheproxy: plugin d-fourth: cacheproxy_commands: OSError: no disk",
        (
            "cacheproxy: plugin e-fifth: cacheproxy_commands: PluginError: cacheproxy_commands "
            "returns click commands with names"
        ),
    ]


def test_a_tool_that_is_not_installed_says_where_it_is(monkeypatch):
    """In one line, whatever it is asked; exit code 2. The list says it, too."""
    monkeypatch.setattr("cacheproxy.cli.main.TOOLS", {"juggle": "tools/juggle"})
    for words in ([], ["--help"], ["--balls", "3", "now"]):
        assert refused("juggle", *words) == (
            "cacheproxy: the command juggle is not installed: pip install ./tools/juggle (in a "
            "checkout of cacheproxy)"
        )
    assert "Not installed: pip install ./tools/juggle" in printed("--help")
