"""``cacheproxy env``: asked of a real proxy, evaluated by a real shell (env.txt).

What each client is told stands in setup.txt beside the tests of its package.
"""

import json
import os
import shlex
import subprocess
import sys

import pytest
from click.shell_completion import BashComplete

from cacheproxy.cli.main import main
from cacheproxy.plugin.loading import installed, setups
from cacheproxy.sources import default_file
from tests import transcript
from tests.cli.invoking import invoke, printed
from tests.proxy.harness import Proxy, Upstream, environment, free_port, whole

pytestmark = pytest.mark.slow

MODEL = "Qwen3 Coder's $HOME"
CLIENTS = sorted(setups(installed()))
PAGES = {
    b"/props": {"default_generation_settings": {"n_ctx": 131_072}, "total_slots": 4},
    b"/v1/models": {"data": [{"id": MODEL}]},
}
MINE = """from cacheproxy import Client, Setup, hookimpl
CLIENT = Client('mine')
@hookimpl
def cacheproxy_setup(need): return Setup({'MINE': need.url})
"""


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


def test_what_it_prints(proxy, upstream, tmp_path, monkeypatch):
    monkeypatch.setenv("CACHEPROXY_TOKEN", "sesame")
    nobody = f"http://127.0.0.1:{free_port()}"

    def env(words):
        """What it prints, and says beside it; NO: where there is no proxy."""
        words = words.replace("PROXY", proxy.url).replace("NO", nobody)
        result = invoke("env", *shlex.split(words))
        said = [*result.stdout.splitlines()]
        said += [f"! {line}" for line in result.stderr.splitlines()]
        said += [f"exit {result.exit_code}"] * bool(result.exit_code)
        text = "\n".join(said).replace(proxy.url, "PROXY").replace(nobody, "NOBODY")
        return text.replace(nobody.rpartition(":")[2], "PORT").replace(str(tmp_path), "FOLDER")

    def wrote(text):
        """The user's config file."""
        default_file().parent.mkdir(parents=True, exist_ok=True)
        default_file().write_text(text.format(port=nobody.rpartition(":")[2]))

    def completed(command, begun):
        found = BashComplete(main, {}, "cacheproxy", "").get_completions([command], begun)
        return [one.value for one in found]

    def evaluated(text):
        """What bash makes of the text with the command that starts the client behind it."""
        script = 'eval "$SETUP" && echo started || echo "not: $ANTHROPIC_BASE_URL"'
        mine = {"SETUP": text, "PATH": os.environ["PATH"]}
        done = subprocess.run(["bash", "-c", script], env=mine, capture_output=True, check=True)
        return done.stdout.decode().strip()

    names = {"env": env, "wrote": wrote, "completed": completed, "evaluated": evaluated}
    names |= {"upstream": upstream, "tmp_path": tmp_path, "monkeypatch": monkeypatch}
    transcript.holds("env.txt", globals() | names)


def test_bash_evaluates_it(proxy, tmp_path):
    """As the banner says: eval "$(cacheproxy env claude)"."""
    command = shlex.join([sys.executable, "-P", "-m", "cacheproxy", "env", "claude"])
    script = (
        f'eval "$({command} --proxy {proxy.url})" && '
        "env -0 | grep -zE '^(ANTHROPIC|CLAUDE_CODE)_' | tr '\\0' '\\n'"
    )
    mine = {"CACHEPROXY_TOKEN": "sesame", "ANTHROPIC_API_KEY": "sk-mine", "CACHEPROXY_BLOCK": ""}
    result = subprocess.run(
        ["bash", "-c", script], env=environment(tmp_path, **mine), capture_output=True, text=True,
        check=True, timeout=120,
    )  # fmt: skip
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


def test_each_client_gets_the_servers_model(proxy):
    """And its context window, but for aider and Gemini CLI, which have none to set."""
    for client in CLIENTS:
        text = printed("env", client, "--proxy", proxy.url, CACHEPROXY_TOKEN="sesame")
        assert (client, proxy.url in text, "Qwen3 Coder" in text) == (client, True, True)
        assert ("131072" in text, client) == (client not in ("aider", "gemini"), client)
