"""The command as people run it."""

import json
import signal
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from cacheproxy_demo import conversation
from cacheproxy_demo import run as scenes
from cacheproxy_demo.command import MOST_TURNS
from cacheproxy_demo.run import require_plugin

from cacheproxy.http_client import CommandError, Site
from tests import needs
from tests.cli.invoking import invoke, refused
from tests.proxy.harness import TIMEOUT, environment, eventually, running, runs

pytestmark = pytest.mark.slow

PROGRAM = "from cacheproxy_demo.command import demo; demo()"


@pytest.fixture
def _plugin():
    try:
        require_plugin()
    except CommandError as missing:
        pytest.skip(str(missing))


run, refused = partial(invoke, "demo"), partial(refused, "demo")


def test_as_many_turns_as_were_recorded():
    recorded = [conversation.load(name) for name in (conversation.CCH, conversation.LATE)]
    assert min(len(each.turns) for each in recorded) == MOST_TURNS
    assert run("--turns", str(MOST_TURNS + 1)).exit_code == 2


def test_without_the_client_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(scenes, "PLUGIN", "cacheproxy-of-nobody")
    assert "pip install ./clients/claude-code" in refused()


def test_serve_is_for_the_embedded_server():
    for option in ("--upstream=http://localhost:8080", "--json"):
        assert "leave out --upstream and --json" in refused("--serve", option)


@pytest.mark.usefixtures("_plugin")
class TestUpstream:
    def test_a_server_that_is_not_there(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        assert "start the model server there" in refused("--upstream", url)

    def test_what_is_no_url(self):
        assert "http://localhost:8080" in refused("--upstream", "localhost")


@pytest.mark.usefixtures("_plugin")
class TestEmbedded:
    def test_a_missing_library_is_one_line_that_says_what_to_install(self, tmp_path, monkeypatch):
        (tmp_path / "xllamacpp.py").write_text("raise ImportError('libgomp.so.1: not found')")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        result = run()
        assert result.exit_code == 2
        assert "apt install libgomp1" in result.stderr.splitlines()[-1]

    @pytest.mark.llama
    @pytest.mark.usefixtures("small")
    def test_it_prints_one_json_object_and_the_gain_is_there(self):
        needs.llama()
        result = run("--turns", "2", "--json")
        assert result.exit_code == 0, result.output
        strict, hoisting, cch = json.loads(result.stdout)["scenes"]
        assert strict["direct"]["total"]["refused"] == 2
        assert hoisting["direct"]["total"]["share"] < 0.8
        assert cch["direct"]["turns"][1]["reused"] < 100
        for scene in (strict, hoisting, cch):
            assert scene["through"]["total"]["refused"] == 0
            assert scene["through"]["total"]["share"] >= 0.99
        learned = [scene["placement"]["late"] for scene in (strict, hoisting)]
        assert learned == ["refused", "hoisted"]
        assert result.stderr == ""

    @pytest.mark.llama
    @pytest.mark.usefixtures("small")
    def test_without_a_terminal_each_step_is_a_line_at_once(self):
        """On standard error; the result follows on standard output, in plain words."""
        needs.llama()
        result = run("--turns", "2")
        assert result.exit_code == 0, result.output
        assert result.stderr.splitlines()[:6] == [
            "writing a random model",
            "starting the embedded llama.cpp",
            "Claude Code 2.1.280: the template refuses its system messages",
            "turn 1 of 2 directly",
            "turn 2 of 2 directly",
            "done directly",
        ]
        assert result.stdout.startswith("Through cacheproxy all 6 requests were answered")

    @pytest.mark.llama
    @pytest.mark.parametrize(
        "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)]
    )
    def test_serve_keeps_a_server_and_a_proxy_until_ctrl_c(self, number, tmp_path):
        """What it says may be tried at once; nothing stays behind."""
        needs.llama()
        env = environment(tmp_path, TMPDIR=str(tmp_path))
        with running(
            [sys.executable, "-c", PROGRAM, "--serve"], env=env, stdout=subprocess.PIPE
        ) as command:
            said = []
            for line in command.stdout:
                said.append(line.decode())
                if "cacheproxy doctor" in said[-1]:
                    break
            (curl,) = (line for line in said if line.startswith("  curl "))
            url = curl.split()[1]
            body = b'{"messages": [{"role": "user", "content": "hello"}], "max_tokens": 2}'
            answer = Site(url.removesuffix("/v1/chat/completions")).post(
                "/v1/chat/completions", body
            )
            assert answer.status == 200
            assert answer.json()["usage"]["completion_tokens"] <= 2
            command.send_signal(number)
            rest, _ = command.communicate(timeout=TIMEOUT)
        assert command.returncode == 0
        assert b"#1 " in rest
        assert list(tmp_path.glob("cacheproxy-demo-*")) == []

    @pytest.mark.llama
    @pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for children in /proc")
    def test_ctrl_c_leaves_no_process_behind(self):
        needs.llama()
        with running([sys.executable, "-c", PROGRAM], stderr=subprocess.PIPE) as command:
            children = Path(f"/proc/{command.pid}/task/{command.pid}/children")
            eventually(children.read_text)
            (child,) = map(int, children.read_text().split())
            command.send_signal(signal.SIGINT)
            _, errors = command.communicate(timeout=TIMEOUT)
        assert command.returncode == 1
        assert b"Traceback" not in errors
        eventually(lambda: not runs(child))  # stopped in its first moments, it leaves by itself
