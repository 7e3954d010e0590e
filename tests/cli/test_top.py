"""``cacheproxy top`` in a real terminal, with a real proxy in which a conversation breaks."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from contextlib import contextmanager

import pytest
from click.testing import CliRunner

from cacheproxy.cli.main import main
from tests.cli.invoking import printed, refused
from tests.proxy.harness import TIMEOUT, environment, free_port
from tests.web.breaking import DATED, WORDS, Breaking, date

_OWN = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
"""Has Ctrl-C sent to the program, as a shell does."""
_RUN = f"{_OWN}from cacheproxy.cli.main import main; main()"
_BREAKS_DOWN = (
    "from cacheproxy.cli import top\n"
    "def lines(told, *_):\n"
    "    if told.data: raise RuntimeError('seeded')\n"
    "    return []\n"
    f"top.lines = lines\n{_RUN}"
)
_LEFT = "\x1b[?1049l"
"""What leaves the second screen (xterm's control sequences), and what shows the cursor."""
_CURSOR = "\x1b[?25h"

pytestmark = pytest.mark.slow


class Terminal:
    """A terminal in which a program runs; ``text``: all that it has written."""

    def __init__(self, folder, *words, code=_RUN, width=80, **environ):
        self.number, self._theirs = pty.openpty()
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        self.before = termios.tcgetattr(self._theirs)
        self.text = ""
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, "top", *words],
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            env=environment(folder, TERM="xterm-256color", **environ),
            start_new_session=True,
        )

    def press(self, keys):
        os.write(self.number, keys.encode())

    def wait_for(self, pattern):
        """Read until ``pattern`` is written, by itself and later than what was waited for."""
        start, deadline = len(self.text), time.monotonic() + TIMEOUT
        while not re.search(pattern, self.text[start:], re.DOTALL):
            assert time.monotonic() < deadline, f"{pattern!r} is not in {self.text[-4000:]!r}"
            if select.select([self.number], [], [], 1.0)[0]:
                self.text += os.read(self.number, 1 << 16).decode(errors="replace")
        return self.text[start:]

    def ended(self):
        """Return the exit code; the terminal is as it was."""
        self.wait_for(re.escape(_LEFT))
        while self.process.poll() is None:
            if select.select([self.number], [], [], 0.1)[0]:
                self.text += os.read(self.number, 1 << 16).decode(errors="replace")
        assert termios.tcgetattr(self._theirs) == self.before
        assert _CURSOR in self.text[self.text.rindex("\x1b[?25l") :]
        return self.process.returncode

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.number)
        os.close(self._theirs)


@contextmanager
def terminal(*arguments, **more):
    shown = Terminal(*arguments, **more)
    try:
        yield shown
    finally:
        shown.close()


@pytest.fixture(scope="module")
def breaking(tmp_path_factory):
    """A proxy with two conversations, one of which broke."""
    found = Breaking(tmp_path_factory.mktemp("top"))
    found.number = found.broke(date(20), date(21), DATED)
    found.say("calm", "hello", system=WORDS)
    found.last(lambda one: one["session"] == "calm")
    yield found
    found.close()


def test_it_is_printed_where_nobody_looks(breaking):
    text = printed("top", "--proxy", breaking.proxy.url)
    assert re.search(r"^  somebody/s\d+ +2 ", text, re.MULTILINE)
    assert re.search(r"^  somebody/calm +1 ", text, re.MULTILINE)
    assert "The system text changed (date)" in text
    command = f"cacheproxy diagnose {breaking.number} --propose --apply"
    assert f"\n  cure: {command} --proxy {breaking.proxy.url}\n" in text
    assert "\x1b" not in text


def test_a_terminal_without_these_characters_has_others(breaking):
    words = ["top", "--once", "--proxy", breaking.proxy.url]
    result = CliRunner(charset="ascii").invoke(main, words)
    assert result.exit_code == 0, result.exception
    assert "somebody/calm" in result.stdout


def test_it_is_one_json_object(breaking):
    found = json.loads(printed("top", "--json", "--proxy", breaking.proxy.url))
    assert found["count"] == len(found["conversations"]) == 2
    (broke,) = found["breaks"]
    assert broke["known"]["cure"]["applicable"]
    assert found["headline"]["title"]


def test_without_a_proxy_it_says_so(breaking):
    line = refused("top", "--proxy", f"http://127.0.0.1:{free_port()}")
    assert "no cacheproxy answers at" in line
    assert "--from" not in line


def test_it_is_looked_at_live(breaking, tmp_path):
    with terminal(tmp_path, "--proxy", breaking.proxy.url) as shown:
        shown.wait_for(r"▸ somebody/calm .*  somebody/s\d+ .*  cure: cacheproxy diagnose")
        breaking.say("later", "hello", system=WORDS)
        shown.wait_for("somebody/late")
        name = re.search(r"somebody/s(\d+)", shown.text)[1]
        shown.press("/s")
        shown.press(f"{name}\r")
        shown.wait_for(r"▸ somebody/s\d+")
        shown.press("\r")
        shown.wait_for("#2 .* BREAK The system.*escape back")
        shown.press("q")
        assert shown.ended() == 0


def test_a_proxy_that_comes_back_is_shown_again(tmp_path):
    """It says that none answers, and goes on by itself."""
    first = Breaking(tmp_path)
    port = first.proxy.address[1]
    with terminal(tmp_path, "--proxy", first.proxy.url, width=140) as shown:
        first.say("one", "hello", system=WORDS)
        shown.wait_for("▸ somebody/one")
        first.close()
        shown.wait_for(r"No cacheproxy answers at http://127.0.0.1:\d+ \(.*trying again")
        again = Breaking(tmp_path, port=port)
        again.say("two", "hello", system=WORDS)
        shown.wait_for("▸ somebody/two")
        again.close()
        shown.press("q")
        assert shown.ended() == 0


@pytest.mark.parametrize(
    ("leave", "code"),
    [
        (lambda shown: shown.press("\x03"), 0),
        (lambda shown: shown.process.send_signal(signal.SIGTERM), 128 + signal.SIGTERM),
        (lambda shown: None, 1),
    ],
    ids=["Ctrl-C", "SIGTERM", "a crash"],
)
def test_the_terminal_is_as_before(breaking, tmp_path, leave, code):
    program = _BREAKS_DOWN if code == 1 else _RUN
    with terminal(tmp_path, "--proxy", breaking.proxy.url, code=program) as shown:
        if code != 1:
            shown.wait_for("somebody/calm")
        leave(shown)
        assert shown.ended() == code
        assert ("RuntimeError" in shown.text) == (code == 1)
