"""``cacheproxy env``: asked of a real proxy, evaluated by a real shell.

What each client is told stands in setup.txt beside the tests of its package.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from functools import partial

import pytest
from click.shell_completion import BashComplete

from cacheproxy.cli.main import main
from cacheproxy.plugin.loading import Setups
from cacheproxy.sources import default_file
from tests.cli.invoking import invoke, one_line, printed
from tests.proxy.harness import Proxy, Upstream, environment, free_port, whole

pytestmark = pytest.mark.slow

MODEL = "Qwen3 Coder's $HOME"
SETUPS = Setups()
PAGES = {
    b"/props": {"default_generation_settings": {"n_ctx": 131_072}, "total_slots": 4},
    b"/v1/models": {"data": [{"id": MODEL}]},
}


@pytest.fixture(scope="module")
def upstream():
    """A llama-server; ``serves``: whether it has /v1/responses, too."""

    def answer(peer, received):
        page = PAGES.get(received.line.split(b" ")[1])
        if received.line.startswith(b"POST /v1/responses ") and server.serves:
            assert received.body == b"{}"
            peer.send(whole(b'{"error": {"code": 400}}', status=b"400 Bad Request"))
        else:
            missing = whole(b"no", status=b"404 Not Found")
            peer.send(whole(json.dumps(page).encode()) if page else missing)

    server = Upstream()
    server.reset(answer)
    server.serves = True
    yield server
    server.close()


@pytest.fixture(scope="module")
def proxy(tmp_path_factory, upstream):
    folder = tmp_path_factory.mktemp("env")
    with Proxy(folder, "--upstream", upstream.url, CACHEPROXY_TOKEN="sesame") as proxy:
        yield proxy


@pytest.fixture(autouse=True)
def _token(monkeypatch):
    """The proxy's token is known."""
    monkeypatch.setenv("CACHEPROXY_TOKEN", "sesame")


run, printed = partial(invoke, "env"), partial(printed, "env")


def test_bash_evaluates_it(proxy, tmp_path):
    """As the banner says: eval "$(cacheproxy env claude)"."""
    command = shlex.join([sys.executable, "-P", "-m", "cacheproxy", "env", "claude"])
    script = (
        f'eval "$({command} --proxy {proxy.url})" && '
        "env -0 | grep -zE '^(ANTHROPIC|CLAUDE_CODE)_' | tr '\\0' '\\n'"
    )
    mine = {"CACHEPROXY_TOKEN": "sesame", "ANTHROPIC_API_KEY": "sk-mine", "CACHEPROXY_BLOCK": ""}
    result = subprocess.run(
        ["bash", "-c", script],
        env=environment(tmp_path, **mine),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert result.stderr == ""
    found = dict(line.split("=", 1) for line in result.stdout.splitlines())
    assert found == {
        "ANTHROPIC_BASE_URL": proxy.url,
        "ANTHROPIC_AUTH_TOKEN": "sesame",
        **dict.fromkeys((name for name in found if "MODEL" in name), MODEL),
        "CLAUDE_CODE_MAX_CONTEXT_TOKENS": "131072",
        # this server does not say what it does with a late system message
        "CLAUDE_CODE_TOTAL_TOKENS_REMINDER": "off",
    }
    assert "ANTHROPIC_MODEL" in found


@pytest.mark.parametrize("client", SETUPS.clients)
def test_each_client_gets_the_servers_model(proxy, client):
    """And its context window, but for aider and Gemini CLI, which have none to set."""
    text = printed(client, "--proxy", proxy.url)
    assert proxy.url in text
    assert "Qwen3 Coder" in text
    assert ("131072" in text) == (client not in ("aider", "gemini"))


@pytest.mark.parametrize("serves", [True, False])
def test_a_file_is_printed_as_it_is(proxy, upstream, serves):
    """Standard output can be written to the file; beside it stands which file that is.

    A server without /v1/responses is asked, and warned of.
    """
    upstream.serves = serves
    result = run("codex", "--proxy", proxy.url)
    assert "cacheproxy: put this into ~/.codex/config.toml, " in result.stderr
    assert "CACHEPROXY_TOKEN " in result.stderr
    assert ("cacheproxy: Codex needs /v1/responses" in result.stderr) is not serves
    told = json.loads(printed("codex", "--proxy", proxy.url, "--json"))
    assert (told["file"], told["content"]) == ("~/.codex/config.toml", result.stdout)
    assert run("cline", "--proxy", proxy.url).stderr == ""  # it is typed in by hand


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--shell", "fish"), "set -gx ANTHROPIC_MODEL 'Qwen3 Coder\\'s $HOME'"),
        (("--shell", "powershell"), "$env:ANTHROPIC_MODEL = 'Qwen3 Coder''s $HOME'"),
        (("--api-key", "k"), "export ANTHROPIC_CUSTOM_HEADERS='X-Cacheproxy-Token: sesame'"),
        (("--api-key", "k"), "export ANTHROPIC_AUTH_TOKEN=k"),
    ],
)
def test_shells_and_keys(proxy, options, line):
    """In the shell's own words; the server's key goes where a key goes, the token into a header."""
    assert line in printed("claude", "--proxy", proxy.url, *options).splitlines()


def test_where_the_configuration_says():
    """Where no proxy runs, the base URL is known, and one line says what is missing."""
    port = free_port()
    default_file().parent.mkdir(parents=True)
    default_file().write_text(f"port = {port}\ninterface = '0.0.0.0'")
    result = run("aider")
    assert f"OPENAI_API_BASE=http://127.0.0.1:{port}/v1" in result.stdout
    assert "MODEL" not in result.stdout
    line = one_line(result, 1)
    assert f"no cacheproxy answers at http://127.0.0.1:{port} (" in line
    assert "start it (cacheproxy serve) before you use the client. Then run this again" in line
    assert "token" not in line  # it has none
    assert result.stdout.startswith(f"# no cacheproxy answers at http://127.0.0.1:{port} (")


def test_without_a_proxy_the_command_fails():
    """And so does what a shell evaluates: nothing is started that would not work."""
    url = f"http://127.0.0.1:{free_port()}"
    assert run("codex", "--proxy", url).exit_code == 1
    result = run("claude", "--proxy", url)
    assert result.exit_code == 1
    script = 'eval "$SETUP" && echo started || echo "not: $ANTHROPIC_BASE_URL"'
    mine = {"SETUP": result.stdout, "PATH": os.environ["PATH"]}
    done = subprocess.run(["bash", "-c", script], env=mine, capture_output=True, check=True)
    assert done.stdout.decode().splitlines() == [f"not: {url}"]


@pytest.mark.parametrize("names", [("claude", "claude-code"), ("qwen", "qwen-code")])
def test_a_client_goes_by_its_name_and_by_its_packages(names):
    """Both print the same."""
    url = f"http://127.0.0.1:{free_port()}"
    one, other = (run(name, "--proxy", url).stdout for name in names)
    assert one == other != ""


def test_what_is_not_installed_is_said_in_one_line():
    """With what is, and how to get others; a blocked package is not there, as for the proxy."""
    assert one_line(run("emacs")) == (
        f"cacheproxy: no client called 'emacs' is installed; there are {', '.join(SETUPS.clients)}."
        " Others: pip install ./clients/NAME (in a checkout of cacheproxy)"
    )
    default_file().parent.mkdir(parents=True)
    default_file().write_text('block = ["codex"]')
    assert "no client called 'codex' is installed" in one_line(run("codex"))


def test_a_file_that_is_a_plugin_may_set_its_client_up(tmp_path):
    """It is named in the config file, as for the proxy."""
    (tmp_path / "mine.py").write_text(
        "from cacheproxy import Client, Setup, hookimpl\n"
        "CLIENT = Client('mine')\n"
        "@hookimpl\n"
        "def cacheproxy_setup(need): return Setup({'MINE': need.url})\n"
    )
    (tmp_path / "c.toml").write_text('plugin = ["mine.py"]')
    url = f"http://127.0.0.1:{free_port()}"
    result = run("mine", "--config", tmp_path / "c.toml", "--proxy", url, "--shell", "bash")
    assert f"\nexport MINE={url}\n" in result.stdout


@pytest.mark.parametrize("command", ["env", "run"])
@pytest.mark.parametrize(("begun", "found"), [("cl", ["claude", "cline"]), ("x", [])])
def test_shells_complete_the_installed_clients(command, begun, found):
    """By their own names."""
    completed = BashComplete(main, {}, "cacheproxy", "").get_completions([command], begun)
    assert [one.value for one in completed] == found
