"""The command as people run it."""

import json
import os
import signal
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from cacheproxy.asking import CommandError
from cacheproxy.cli.demo import MOST_TURNS
from cacheproxy.demo import conversation
from cacheproxy.demo import run as scenes
from cacheproxy.demo.run import require_plugin
from tests import needs
from tests.cli.invoking import invoke, refused
from tests.demo.conftest import smaller
from tests.proxy.harness import TIMEOUT, eventually, running, runs

pytestmark = pytest.mark.slow

PROGRAM = "from cacheproxy.cli.demo import demo; demo()"


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
    assert "pip install cacheproxy-of-nobody" in refused()


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
        here = Path(__file__).parents[2]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(here)]))
        assert "apt install libgomp1" in refused()

    @pytest.mark.llama
    def test_it_prints_one_json_object_and_the_gain_is_there(self, monkeypatch):
        needs.llama()
        monkeypatch.setattr(scenes, "load", lambda name: smaller(conversation.load(name)))
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
