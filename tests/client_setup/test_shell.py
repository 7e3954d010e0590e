"""Quoting, by the shells themselves where they are installed."""

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheproxy.client_setup.shell import lines
from tests import needs

pytestmark = pytest.mark.slow

ODD = "a b'c\"d$e`f\\g!h#i;j&k|l*m?n~o{p}q[r]s(t)u<v>w%x\\"
VALUES = [ODD, "", "\\", "'", "''", "$(touch /tmp/x)", "ü€", "-n", "plain"]
NAMED = {f"V{number}": value for number, value in enumerate(VALUES)}


def printed(script, *shell):
    """What it prints; as it is, since text mode makes a line feed of every carriage return."""
    command = [*(shell or ("bash",)), "-c", script]
    return subprocess.run(command, capture_output=True, check=True, timeout=120).stdout.decode()


def test_bash_reads_what_was_meant():
    """Whatever it is; notes are comments line by line, and nothing in one is evaluated."""
    script = "\n".join(lines("bash", NAMED, ["V8"], ["a note; false"]))
    shown = "".join(f'printf "%s\\n" "${{{name}-gone}}"\n' for name in NAMED)
    assert printed(f"set -e\n{script}\n{shown}").splitlines() == [*VALUES[:-1], "gone"]
    script = "\n".join(lines("bash", {"V": "1"}, [], ["a\necho no", "b\rc"], "why\necho no"))
    assert "# echo no" in script
    assert printed(f'{script}\necho "$? $V"') == "1 1\n"


@settings(max_examples=15, deadline=None)
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_bash_reads_any_text(value):
    """A trailing word guards the end of it."""
    (line,) = lines("bash", {"V": value}, [], [])
    assert printed(f'{line}\nprintf "%s." "$V"').removesuffix(".") == value


def test_fish_reads_what_was_meant():
    """If it is here."""
    fish = needs.program("fish")
    shown = "".join(f'printf "%s\\n" "${name}"\n' for name in NAMED)
    script = "\n".join(lines("fish", NAMED, [], ["a note"])) + "\n" + shown
    assert printed(script, fish, "--no-config").splitlines() == VALUES
