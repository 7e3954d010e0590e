"""What doctor says of what it knows: the answer, and the findings that are not the usual ones.

All of it stands in findings.txt. What it knows is built by function; test_facts.py and the tests
of real servers look at how it comes to know.
"""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from cacheproxy import Rule
from cacheproxy.client_setup.finding import Finding, FindingState
from cacheproxy.core.conversation.verdict import Reason, Rewrite
from cacheproxy.core.kinds.placement import Late, alike
from cacheproxy.core.kinds.profile import Profile, ServerFacts, ThinkingProfile
from cacheproxy.doctor.examine import CHECKS
from cacheproxy.doctor.facts import Proxy, SeenUpstream
from cacheproxy.doctor.report import Conclusion, DoctorReport, Working, conclude
from cacheproxy.plugin.package import Package
from cacheproxy.plugin.packages import Configured, Packages
from tests import transcript
from tests.doctor.builders import (
    NOW,
    PROXY,
    RUNS,
    SERVER,
    facts,
    record,
    recorded,
    seen,
    server_look,
    shot,
    trial,
)

LOST, KEPT, NONE = trial(639, 33), trial(639, 639), trial(0, 0)
SAME, OTHER = replace(NONE, same=shot(639)), replace(NONE, same=shot(0))
LLAMA = ServerFacts("llama-server")
SYSTEM = "System message must be at the beginning."


def worked(evaluated=None, slots=()):
    """A server that has done so much; its metrics tell."""
    return SeenUpstream(SERVER, server_look(evaluated=evaluated, slots=slots))


def asked(number, client="claude", status=200, said=None, **more):
    """A request of whose tokens nothing is known."""
    more |= {"client": client, "status": status, "error": said, "wall": NOW - 120}
    return seen(number, number, None, None, "-", path="/v1/messages", **more)


def left(number, seconds, **more):
    """A request that its client left before the answer began, two minutes ago."""
    usual = {"outcome": "client left", "seconds": seconds, "wall": NOW - 120 - seconds}
    return seen(number, number, None, None, "-", **usual | more)


def cut(number, prompt, reused=7, **more):
    return seen(number, number, prompt, reused, "cut", **{"reason": "cut"} | more)


def rows(*found, **more):
    return {"record": recorded(*found), **more}


def late(placement, *clients):
    return {
        "profile": Profile(server=LLAMA, placement=placement),
        "record": recorded(*(seen(n, client=one) for n, one in enumerate(clients, 1))),
    }


def template(**more):
    return {"profile": Profile(server=LLAMA, **more)}


def thoughts(way, **more):
    return template(thoughts=ThinkingProfile(way, **more))


def installed(packages, rules, running=None, **more):
    """These are here, and those rules are on in the proxy that runs; None: none does."""
    on = tuple(Rule(name, "system", "stamp", "", why="it changes") for name in rules)
    runs = Proxy(PROXY, problem="no proxy answers") if running is None else RUNS
    found = Configured(Packages(packages), (), on, frozenset(rules))
    return {"found": found, "proxy": replace(runs, rules=running or ()), **more}


GOOD = Package("good", "good-plugin", "1.2")
BROKEN = Package("broken", "broken-plugin", "0.1", error="ImportError: no")
OPEN = replace(GOOD, warning="open.py can be changed by others", file="/there/open.py")
TALK = record((1, 0, "cold"), (2, 17_800, "ok"), (3, 17_900, "ok"))
BROKE = {"verdict": "BREAK", "reason": "system_changed"}
REFUSED, UNTOLD = alike(Late.REFUSED, "/apply-template"), alike(Late.UNKNOWN, "")
RETHOUGHT = {"rewrite": Rewrite.THINKING, "reason": Reason.TEMPLATE_CHANGED}


def examined(kind="llama-server", **more):
    """What is known, and all findings."""
    known = facts(kind, **({"record": recorded()} | more))
    return known, [finding for check in CHECKS for finding in check(known)]


USUAL = examined()[1]


def said(subject, found=(), /, **more):
    """The answer; each finding that is unusual, or about ``subject``; what is not there."""
    known, findings = examined(**dict(found) | more)
    answer = conclude(known, findings)
    lines = [f"{answer.answer}: {answer.text}"]
    for one in findings:
        if one not in USUAL and (one.name == subject or one.state is not FindingState.OK):
            lines.append(f"  {one.state} {one.name}: {one.text}")
            lines += [f"     fix: {one.fix}"] if one.fix else []
    left = {one.name for one in USUAL} - {one.name for one in findings}
    return "\n".join([*lines, *(f"  no {name}" for name in sorted(left))])


def test_what_is_said_of_it():
    transcript.holds("findings.txt", globals())


FINDINGS = (
    Finding("proxy", FindingState.OK, "it listens"),
    Finding("upstream", FindingState.WARN, "word " * 40, "do this"),
    Finding("reuse", FindingState.FAIL, "evil \x1b[31m name"),
)
REPORT = DoctorReport(Conclusion(Working.NO, "It is not. " * 12), FINDINGS)


@pytest.mark.parametrize("width", [60, 96])
@pytest.mark.parametrize("colour", [None, "1", ""])
def test_a_report_in_a_terminal(monkeypatch, width, colour):
    """No line is wider but for the last; control characters are spelt out; colours if wanted."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if colour:
        monkeypatch.setenv("NO_COLOR", colour)
    console = Console(file=io.StringIO(), force_terminal=colour is not None, width=width)
    text = REPORT.text(console)
    assert ("\x1b[1;31mFAIL" in text) is (colour == "")
    if colour is None:
        assert all(len(line) <= width for line in text.splitlines()[:-1])
    assert REPORT.exit_code == 1
    assert replace(REPORT, findings=FINDINGS[:2]).exit_code == 0
    assert REPORT.json()["findings"][1]["fix"] == "do this"
