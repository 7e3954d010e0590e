"""``cacheproxy env``: asked of a real proxy, evaluated by a real shell."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tomllib
from functools import partial

import pytest
from click.shell_completion import BashComplete

from cacheproxy.cli.main import main
from cacheproxy.client_setup.need import Need
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


def chat_server(peer, received):
    page = PAGES.get(received.line.split(b" ")[1])
    body = json.dumps(page).encode()
    peer.send(whole(body) if page else whole(b"no", status=b"404 Not Found"))


def llama_server(peer, received):
    if received.line.startswith(b"POST /v1/responses "):
        assert received.body == b"{}"
        peer.send(whole(b'{"error": {"code": 400}}', status=b"400 Bad Request"))
    else:
        chat_server(peer, received)


@pytest.fixture(scope="module")
def proxy(tmp_path_factory):
    yield from running(tmp_path_factory, llama_server)


@pytest.fixture
def chat_only(tmp_path_factory):
    yield from running(tmp_path_factory, chat_server)


def running(tmp_path_factory, server):
    upstream = Upstream()
    upstream.reset(server)
    folder = tmp_path_factory.mktemp("env")
    with Proxy(folder, "--upstream", upstream.url, CACHEPROXY_TOKEN="sesame") as proxy:
        yield proxy
    upstream.close()


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
    result = subprocess.run(
        ["bash", "-c", script],
        env=environment(
            tmp_path, CACHEPROXY_TOKEN="sesame", ANTHROPIC_API_KEY="sk-mine", CACHEPROXY_BLOCK=""
        ),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert result.stderr == ""
    found = dict(line.split("=", 1) for line in result.stdout.splitlines())
    assert found["ANTHROPIC_BASE_URL"] == proxy.url
    assert found["ANTHROPIC_AUTH_TOKEN"] == "sesame"
    assert found["ANTHROPIC_MODEL"] == MODEL
    assert found["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == "131072"
    # this server does not say what it does with a late system message
    assert found["CLAUDE_CODE_TOTAL_TOKENS_REMINDER"] == "off"
    assert "ANTHROPIC_API_KEY" not in found


@pytest.mark.parametrize("client", SETUPS.clients)
def test_each_client_gets_the_servers_model(proxy, client):
    """And its context window, but for aider and Gemini CLI, which have none to set."""
    text = printed(client, "--proxy", proxy.url)
    assert f"{proxy.url}" in text
    assert "Qwen3 Coder" in text
    assert ("131072" in text) == (client not in ("aider", "gemini"))


@pytest.mark.parametrize("client", ["openclaw", "opencode", "pi"])
def test_a_file_is_printed_as_it_is(proxy, client):
    """Standard output can be written to the file; beside it stands which file that is."""
    result = run(client, "--proxy", proxy.url)
    assert MODEL in json.dumps(json.loads(result.stdout))
    file = SETUPS.package(client).setup(Need("u")).file
    assert f"cacheproxy: put this into {file}, " in result.stderr
    assert "CACHEPROXY_TOKEN " in result.stderr


def test_codex_is_told_of_its_api(proxy, chat_only):
    """Its file is TOML; a server without /v1/responses is asked and warned of."""
    result = run("codex", "--proxy", proxy.url)
    assert tomllib.loads(result.stdout)["model"] == MODEL
    assert "Codex needs /v1/responses" not in result.stderr
    result = run("codex", "--proxy", chat_only.url)
    assert tomllib.loads(result.stdout)["model"] == MODEL
    assert "cacheproxy: Codex needs /v1/responses" in result.stderr


def test_fields_are_printed_alone(proxy):
    """Cline's settings are typed in by hand."""
    result = run("cline", "--proxy", proxy.url)
    assert result.stderr == ""
    assert "\n  Base URL:" in result.stdout
    assert "#" not in result.stdout


def test_other_shells(proxy):
    """In their own words."""
    text = printed("claude", "--proxy", proxy.url, "--shell", "fish")
    assert f"set -gx ANTHROPIC_BASE_URL {proxy.url}" in text
    assert "set -gx ANTHROPIC_MODEL 'Qwen3 Coder\\'s $HOME'" in text
    text = printed("claude", "--proxy", proxy.url, "--shell", "powershell")
    assert "$env:ANTHROPIC_MODEL = 'Qwen3 Coder''s $HOME'" in text


def test_the_same_as_json(proxy):
    """For scripts."""
    found = json.loads(printed("claude", "--proxy", proxy.url, "--json"))
    assert found["variables"]["ANTHROPIC_BASE_URL"] == proxy.url
    found = json.loads(printed("codex", "--proxy", proxy.url, "--json"))
    assert found["file"] == "~/.codex/config.toml"


def test_the_key_of_the_server(proxy):
    """Goes where a key goes, and the token into a header; who cannot send it is told."""
    text = printed("claude", "--proxy", proxy.url, "--api-key", "k")
    assert "ANTHROPIC_AUTH_TOKEN=k" in text
    assert "ANTHROPIC_CUSTOM_HEADERS='X-Cacheproxy-Token: sesame'" in text
    result = run("aider", "--proxy", proxy.url, "--api-key", "k")
    assert "aider cannot send both the proxy's token" in result.stderr


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


@pytest.mark.parametrize("client", ["claude", "codex"])
def test_without_a_proxy_the_command_fails(client):
    """And so does what a shell evaluates: nothing is started that would not work."""
    command = shlex.join([sys.executable, "-P", "-m", "cacheproxy", "env", client])
    command += f" --proxy http://127.0.0.1:{free_port()}"
    script = f'eval "$({command})" && echo started || echo "not started: $ANTHROPIC_BASE_URL"'
    if client == "codex":
        script = f"{command} >/dev/null && echo started || echo not started"
    result = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    assert result.stdout.startswith("not started")
    assert ("http://127.0.0.1:" in result.stdout) == (client == "claude")


@pytest.mark.parametrize("names", [("claude", "claude-code"), ("qwen", "qwen-code")])
def test_a_client_goes_by_its_name_and_by_its_packages(names):
    """Both print the same."""
    url = f"http://127.0.0.1:{free_port()}"
    one, other = (run(name, "--proxy", url).stdout for name in names)
    assert one == other != ""


def test_what_is_not_installed_is_said_in_one_line():
    """With what is, and how to get others."""
    assert one_line(run("emacs")) == (
        f"cacheproxy: no client called 'emacs' is installed; there are {', '.join(SETUPS.clients)}."
        " Others: pip install ./clients/NAME (in a checkout of cacheproxy)"
    )


def test_a_blocked_package_is_not_there():
    """As for the proxy."""
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


@pytest.mark.parametrize(("begun", "found"), [("cl", ["claude", "cline"]), ("x", [])])
def test_shells_complete_the_installed_clients(begun, found):
    """By their own names."""
    completed = BashComplete(main, {}, "cacheproxy", "").get_completions(["env"], begun)
    assert [one.value for one in completed] == found
