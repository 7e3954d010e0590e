"""Quoting, by the shells themselves where they are installed."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheproxy.client_setup.shell import SHELLS, fish, lines, powershell
from tests import needs

pytestmark = pytest.mark.slow

ODD = "a b'c\"d$e`f\\g!h#i;j&k|l*m?n~o{p}q[r]s(t)u<v>w%x\\"
VALUES = [ODD, "", "\\", "'", "''", "$(touch /tmp/x)", "ü€", "-n", "plain"]


def bash(script):
    """What it prints; as it is, since text mode makes a line feed of every carriage return."""
    result = subprocess.run(["bash", "-c", script], capture_output=True, check=True, timeout=120)
    return result.stdout.decode()


def test_bash_reads_what_was_meant():
    """Whatever it is."""
    named = {f"V{number}": value for number, value in enumerate(VALUES)}
    script = "\n".join(lines("bash", named, ["V8"], ["a note; false"]))
    shown = "".join(f'printf "%s\\n" "${{{name}-gone}}"\n' for name in named)
    assert bash(f"set -e\n{script}\n{shown}").splitlines() == [*VALUES[:-1], "gone"]


def test_notes_are_comments_line_by_line():
    """Nothing in one is evaluated."""
    script = "\n".join(lines("bash", {"V": "1"}, [], ["a\necho no", "b\rc"], "why\necho no"))
    assert "# echo no" in script
    assert bash(f'{script}\necho "$? $V"') == "1 1\n"


@settings(max_examples=15, deadline=None)
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_bash_reads_any_text(value):
    """A trailing word guards the end of it."""
    (line,) = lines("bash", {"V": value}, [], [])
    assert bash(f'{line}\nprintf "%s." "$V"').removesuffix(".") == value


def test_fish_reads_what_was_meant():
    """If it is here."""
    fish_itself = needs.program("fish")
    named = {f"V{number}": value for number, value in enumerate(VALUES)}
    shown = "".join(f'printf "%s\\n" "${name}"\n' for name in named)
    script = "\n".join(lines("fish", named, [], ["a note"])) + "\n" + shown
    result = subprocess.run(
        [fish_itself, "--no-config", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert result.stdout.splitlines() == VALUES


def test_fish_quoting():
    """Two escapes, and none where none is needed."""
    assert fish("http://127.0.0.1:8081") == "http://127.0.0.1:8081"
    assert fish("a'b\\c$d") == "'a\\'b\\\\c$d'"
    assert fish("") == "''"


def test_powershell_quoting():
    """Quotes are doubled, the typographic ones, too."""
    assert powershell("a$b") == "'a$b'"
    assert powershell("a'b\u2019c") == "'a''b\u2019\u2019c'"


def test_each_shell_has_its_words():
    """Setting, unsetting, a comment."""
    assert [lines(shell, {"A": "x y"}, ["B"], ["n"]) for shell in SHELLS] == [
        ["# n", "export A='x y'", "unset B"],
        ["# n", "set -gx A 'x y'", "set -e B"],
        ["# n", "$env:A = 'x y'", "Remove-Item Env:B -ErrorAction SilentlyContinue"],
    ]


def test_what_is_missing_makes_the_lines_fail():
    """So that `eval "$(cacheproxy env CLIENT)" && CLIENT` starts nothing; PowerShell only reads."""
    assert [lines(shell, {"A": "x"}, [], [], "no proxy")[-1] for shell in SHELLS] == [
        "false",
        "false",
        "$env:A = 'x'",
    ]
    assert lines("bash", {}, [], [], "no proxy")[0] == "# no proxy"
