"""A stranger's path: from a break in the log to a cure in the running proxy."""

import json
import shlex
import subprocess
import sys

import pytest

from tests.proxy.harness import Client, Proxy, environment

from .replay import TOLERANCE

pytestmark = [pytest.mark.llama, pytest.mark.slow]

WORDS = "the quick brown fox jumps over a lazy dog and waits outside while rain falls\n"
PATH = "/v1/chat/completions"


def system(line):
    return f"{WORDS * 20}{line}\n{WORDS * 20}"


class Stranger:
    """A client that no package knows, in one conversation; the date stands in its system text."""

    def __init__(self, proxy, name="somebody", line="Today's date: {}"):
        self.proxy, self.messages, self.name, self.line = proxy, [], name, line

    def turn(self, date):
        """Ask once more; return the prompt's tokens and those that were reused."""
        self.messages.append({"role": "user", "content": f"look {len(self.messages)} {WORDS}"})
        head = {"role": "system", "content": f"{self.name}: {system(self.line.format(date))}"}
        body = {"model": "m", "messages": [head, *self.messages], "max_tokens": 4}
        whose = f"User-Agent: {self.name}/1.0\r\nX-Session-Id: {self.name}".encode()
        with Client(self.proxy.address) as client:
            answer = client.ask(PATH, json.dumps(body).encode(), whose).answer()
        assert answer.status == 200, answer.body
        said = json.loads(answer.body)
        self.messages.append(said["choices"][0]["message"])
        return said["usage"]["prompt_tokens"], said["timings"]["cache_n"]


def command(proxy, words, folder):
    """Run what a line of the log says."""
    return subprocess.run(
        [sys.executable, "-m", *words],
        env=environment(folder),
        cwd=folder,
        encoding="utf-8",
        capture_output=True,
        check=False,
    )


def test_from_a_break_to_a_cure_without_a_restart(serve, tmp_path):
    """The command stands in the log; the next date costs nothing, and the model hears of it."""
    server = serve("inline", WORDS + "Today's date: 2026-11-20 is now", n_ctx=8192)
    with Proxy(tmp_path, "--upstream", server.url) as proxy:
        stranger = Stranger(proxy)
        stranger.turn("2026-11-20")
        stranger.turn("2026-11-20")
        prompt, reused = stranger.turn("2026-11-21")
        assert reused < 0.6 * prompt
        line = proxy.wait_for("system_changed: ")
        assert "date in /messages/0/content" in line
        words = shlex.split(line[line.index("cacheproxy diagnose") :])
        shown = command(proxy, words, tmp_path)
        assert (shown.returncode, shown.stderr) == (0, "")
        assert not (tmp_path / "cacheproxy" / "config.toml").exists()
        done = command(proxy, [*words, "--apply"], tmp_path)
        assert done.returncode == 0, done.stderr
        file = tmp_path / "cacheproxy" / "config.toml"
        assert f"Made {file}" in done.stdout
        assert "without a restart" in done.stdout
        assert file.read_text() in done.stdout
        assert proxy.wait_for("reloaded: rule changed")
        pid, before = proxy.pid, prompt
        prompt, reused = stranger.turn("2026-11-22")
        assert reused >= before - TOLERANCE
        assert proxy.wait_for("the model is told the new one")
        before = prompt
        prompt, reused = stranger.turn("2026-11-22")
        assert reused >= before - TOLERANCE
        assert proxy.pid == pid
        assert "Traceback" not in proxy.output
