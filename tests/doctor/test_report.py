"""The look of the report."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from cacheproxy.client_setup.finding import Finding, FindingState
from cacheproxy.doctor.conclusion import Conclusion, Working
from cacheproxy.doctor.report import DoctorReport

FINDINGS = (
    Finding("proxy", FindingState.OK, "it listens"),
    Finding("upstream", FindingState.WARN, "word " * 40, "do this"),
    Finding("reuse", FindingState.FAIL, "evil \x1b[31m name"),
)


def report(*findings):
    return DoctorReport(Conclusion(Working.NO, "It is not. " * 12), findings)


def text(shown, *, terminal=False, width=96):
    return shown.text(Console(file=io.StringIO(), force_terminal=terminal, width=width))


def test_verdict_first_then_a_line_for_each_finding():
    """With what mends it below, the count, and the exit code. Control characters are spelt out."""
    lines = text(report(*FINDINGS)).splitlines()
    assert lines[0].startswith("Is the cache working?   NO   It is not.")
    at = lines.index("  proxy     ok    it listens")
    assert lines[at + 1].startswith("  upstream  warn  word word")
    assert " " * 18 + "fix: do this" in lines
    assert r"  reuse     FAIL  evil \x1b[31m name" in lines
    assert lines[-1].startswith("1 warning, 1 problem. Exit code 1.")


@pytest.mark.parametrize("width", [60, 96])
def test_no_line_is_wider_than_the_console(width):
    """But for commands, which must be copied whole."""
    for line in text(report(*FINDINGS[:2]), width=width).splitlines()[:-1]:
        assert len(line) <= width


def test_colours_only_on_a_terminal(monkeypatch):
    """And not where they are not wanted."""
    assert "\x1b" not in text(report(*FINDINGS))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[1;31mFAIL" in text(report(*FINDINGS), terminal=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[1;31m" not in text(report(*FINDINGS), terminal=True)


def test_warnings_are_no_failure():
    assert report(*FINDINGS[:2]).exit_code == 0
    assert report(*FINDINGS).json()["findings"][1]["fix"] == "do this"
