"""What doctor says of what it knows: the answer, and the findings that are not the usual ones.

The texts stand in findings.txt, whole. What it knows is built by function; test_facts.py and the
tests of real servers look at how it comes to know.
"""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from cacheproxy import Rule
from cacheproxy.client_setup.checkup import Checkup
from cacheproxy.client_setup.finding import Finding, FindingState, fail
from cacheproxy.core.conversation.verdict import Reason, Rewrite
from cacheproxy.core.dialects.messages import MESSAGES
from cacheproxy.core.kinds.placement import Late, Placement, alike
from cacheproxy.core.kinds.profile import Profile, ServerFacts, Thinking, ThinkingProfile
from cacheproxy.core.kinds.status import MetricsPage, Slot
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.doctor.examine import CHECKS
from cacheproxy.doctor.facts import Proxy, SeenUpstream
from cacheproxy.doctor.record import NO_RECORD
from cacheproxy.doctor.report import Conclusion, DoctorReport, Working, conclude, report_of
from cacheproxy.doctor.trial import Trial
from cacheproxy.plugin.package import Package
from cacheproxy.plugin.packages import Configured, Packages
from tests import golden
from tests.doctor.builders import (
    CHECKED,
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

FILE = Path(__file__).with_name("findings.txt")
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

CASES = {
    # who can reach it
    "proxy: none": {"proxy": Proxy(PROXY, problem="no")},
    "proxy: none at a port of one's own": {"proxy": Proxy("http://127.0.0.1:9", problem="no")},
    "proxy: another mends it": {"proxy": Proxy(PROXY, problem="it asks", fix="give it")},
    "proxy: open to others": {"proxy": replace(RUNS, reachable="10.0.0.2:8081")},
    "proxy: open with a token": {"proxy": replace(RUNS, reachable="10.0.0.2:8081", has_token=True)},
    "proxy: at another address": {"proxy": replace(RUNS, url="http://10.0.0.2:8081")},
    "upstreams: all up": {"proxy": replace(RUNS, pool=(("a", True), ("b", True)), at="a")},
    "upstreams: one down": {"proxy": replace(RUNS, pool=(("a", True), ("b", False)), at="a")},
    "upstreams: all down": {"proxy": replace(RUNS, pool=(("a", False), ("b", False)), at="a")},
    "upstream: another": {"proxy": replace(RUNS, upstream="http://localhost:1")},
    "upstream: down": {"upstream": SeenUpstream("x", problem="it is down", fix="start it")},
    "metrics: off": {
        "upstream": SeenUpstream(SERVER, replace(server_look(), metrics=MetricsPage.OFF))
    },
    # what came through it, or past it
    "traffic: worked for others": {"upstream": worked(214_300)},
    "traffic: a prompt in a slot": {
        "upstream": worked(slots=[Slot(0, 65_536, 18_904, busy=False, task=7)])
    },
    "traffic: noise": {"upstream": worked(1_900)},
    "traffic: no record": {"record": NO_RECORD, "upstream": worked(900_000)},
    "agents: of two clients": rows(
        seen(1, 1, reused=17_000), seen(2, 2, reused=17_000), seen(3, client="cline")
    ),
    "turns: few lost": rows(
        seen(1, 1, verdict="cold"),
        *(seen(n, n, reused=33, **BROKE) for n in (2, 3)),
        *(seen(n, n, reused=17_000) for n in (4, 5, 6)),
    ),
    "turns: most lost": rows(*(seen(n, n, reused=33, **BROKE) for n in (2, 3)), seen(4, 4)),
    **{
        f"turns: {lost} of 1,807 tokens lost": rows(
            *[seen(2, 2, 1807, 1700, "BREAK", lost=lost, reason="unknown")] * 3
        )
        for lost in (91, 180, 181, 904)
    },
    "turns: what was lost is not told": rows(seen(2, 2, reused=17_000, **BROKE)),
    "turns: one of more than an hour ago": {
        "record": recorded(seen(2, 2, **BROKE), seen(3, 3, wall=9_990.0, **BROKE), now=9_999.0)
    },
    # what failed
    "requests: all refused": rows(*(asked(n, status=400, said=SYSTEM) for n in range(1, 29))),
    **{
        f"requests: {status} {said}": rows(asked(1), asked(2), asked(3, status=status, said=said))
        for status, said in (
            (500, "out of memory"),
            (502, None),
            (400, "the request exceeds the available context size"),
            (401, "Invalid API Key"),
        )
    },
    "requests: too long for vLLM": rows(
        asked(1, status=400, said="exceed_context_size_error"), kind="vLLM"
    ),
    "requests: the only one": rows(asked(7, status=500)),
    "requests: then it went well": rows(asked(1), asked(2, status=503), asked(3), asked(4)),
    "requests: tries by hand": rows(
        asked(1), asked(2), asked(3, "curl", 400), asked(4, "curl", 404)
    ),
    "requests: one malformed": rows(asked(1), asked(2, status=400), asked(3)),
    "requests: the last malformed": rows(asked(1), asked(2), asked(3, status=422)),
    "requests: a try alone": rows(asked(1, "curl", 400)),
    "requests: two malformed": rows(*map(asked, range(4)), *(asked(n, status=422) for n in (4, 5))),
    "requests: a stranger, malformed": rows(*(asked(n, "curl", 400) for n in (1, 2, 3))),
    "requests: a stranger": rows(*(asked(n, "curl", 500) for n in (1, 2, 3))),
    "requests: a stranger, once": rows(asked(1, "curl", 500)),
    "requests: more than an hour ago": {"record": recorded(asked(1, status=500), now=9_999.0)},
    "requests: another client's went well": rows(
        *(asked(n, status=400) for n in (1, 2, 3)), *(asked(n, "opencode") for n in range(4, 20))
    ),
    "requests: an answer broke off": rows(asked(1, outcome="upstream failed")),
    "requests: a client left": rows(asked(1, outcome="client left")),
    "requests: a client left before": rows(asked(1, outcome="client left", status=None)),
    # prompts of which a part was read
    "context: cut by Ollama": rows(cut(2, 4096), cut(3, 3900), kind="Ollama"),
    **{
        f"context: {name}": rows(*found)
        for name, found in {
            "one": [cut(2, 4096)],
            "a first turn, reuse not told": [cut(1, 4096, None)],
            "the turn after one": [cut(2, 9000, reason="context_shifted")],
            "not side requests": [cut(n, 3000, side=True) for n in (2, 3)],
        }.items()
    },
    # who did not wait for an answer
    "patience: one gave up": rows(
        seen(1), left(2, 300.0, progress={"done": 57_600, "total": 90_000, "seconds": 299.0})
    ),
    "patience: again and again": rows(left(1, 120.0, client="cline"), left(2, 300.0), left(3, 299)),
    "patience: stopped by hand": rows(seen(1), left(2, 20.0)),
    "patience: cut off by the proxy": rows(seen(1), left(2, 300.0, error="cut off by the proxy")),
    "patience: waited longer since": rows(left(1, 300.0), asked(2, first_byte=301.0)),
    "patience: waited less since": rows(left(1, 300.0), asked(2, first_byte=299.0)),
    # which packages and rules
    "plugins: one": installed([GOOD], ["good-stamp"]),
    "plugins: one is broken": installed([BROKEN, GOOD], ["good-stamp"]),
    "plugins: one is open": installed([OPEN], ["good-stamp"]),
    "plugins: none": installed([], []),
    "plugins: only broken": installed([BROKEN], []),
    "plugins: no rule is on": installed([GOOD], []),
    "plugins: the config file's rules": installed([], ["mine"]),
    "plugins: many": installed([GOOD] * 12, [f"rule-{number}" for number in range(25)]),
    "rules: the same": installed([GOOD], ["good-stamp"], ("good-stamp",)),
    "rules: others": installed([GOOD], ["good-stamp"], ("old-one",)),
    "rules: none": installed([GOOD], ["good-stamp"], (), edits=False),
    "settings: past the proxy": {
        "checked": (replace(CHECKED, checkup=Checkup((fail("claude", "past it", "mend it"),))),)
    },
    # what test prompts showed
    "reuse: works": {"trials": (LOST,)},
    "reuse: works without, too": {"trials": (KEPT,)},
    "reuse: works on one": {"trials": (LOST, trial(0, 0, api=MESSAGES))},
    "reuse: agents' turns": {"trials": (LOST,), "record": TALK},
    "reuse: only first turns": {"trials": (LOST,), "record": record((1, 0, "cold"))},
    "reuse: old turns": {"trials": (LOST,), "record": recorded(*TALK.rows, now=9_999.0)},
    "reuse: no proxy": {"trials": (LOST,), "proxy": Proxy("http://h:1", problem="no")},
    "reuse: nothing": {"trials": (NONE,)},
    "reuse: nothing, not even the same": {"trials": (OTHER,)},
    "reuse: nothing, held back": {"trials": (replace(NONE, held_back=True),)},
    "reuse: the same alone": {"trials": (SAME,)},
    "reuse: the same alone, without the rule": {
        "trials": (SAME,),
        "proxy": replace(RUNS, rules=("another",)),
    },
    "reuse: the same alone, without a client": {"trials": (SAME,), "checked": ()},
    "reuse: several servers": {
        "trials": (replace(OTHER, repeated=shot(639)),),
        "router_cure": "do this",
    },
    "reuse: not sent": {"not_sent": "the only slot holds a conversation"},
    "reuse: --no-send": {"send": False},
    "reuse: a vendor's": {"edits": False},
    "reuse: a failure": {"trials": (Trial(MESSAGES, through_proxy=True, error="no"),)},
    **{
        f"reuse: too long for {kind or 'a server'}": {
            "trials": (Trial(MESSAGES, through_proxy=False, error="answered 400 (context)"),),
            "kind": kind,
        }
        for kind in ("llama-server", "vLLM", "Ollama", "")
    },
    # its memory and its template
    "slots: dropped": {"proxy": replace(RUNS, evicted=(("The server had dropped it", "a flag"),))},
    "slots: another server's": {
        "proxy": replace(RUNS, upstream="http://localhost:1", evicted=(("It had", "a flag"),))
    },
    "cache-ram: on": {"trials": (replace(LOST, again=shot(639)),)},
    "cache-ram: off": {"trials": (replace(LOST, again=shot(33)),)},
    "template: late refused": late(REFUSED, "claude"),
    "template: late not known": late(UNTOLD, "claude"),
    "template: late not known, and none sends one": late(UNTOLD, "cline"),
    "template: late more is refused": late(
        Placement(REFUSED.system, UNTOLD.system, refuses=("calls", "ids"))
    ),
    "template: late not known, more is refused": late(replace(UNTOLD, refuses=("ids",)), "claude"),
    "template: prints the date": template(clock="the date"),
    "template: prints the time": {
        "profile": Profile(clock="the time", server=ServerFacts("vLLM")),
        "kind": "vLLM",
    },
    "template: drops thinking": thoughts(Thinking.DROPPED),
    "template: keeps it when asked": thoughts(Thinking.ON_REQUEST, asked_by=("preserve", True))
    | rows(seen(1, 2, lost=400, **RETHOUGHT), seen(2, 3), seen(3, 4, lost=500, **RETHOUGHT)),
    "template: the proxy keeps it": thoughts(Thinking.ON_REQUEST, asked_by=("preserve", True))
    | {"proxy": replace(RUNS, keeps="drops it: all keep it")},
    "template: empty thinking": thoughts(Thinking.NEVER_SHOWN, writes_empty=True),
    "template: empty thinking, dropped": thoughts(Thinking.DROPPED, writes_empty=True),
    "template: only appends": thoughts(Thinking.KEPT),
    "template: tools move": template(tools_last=True),
    "template: tools and system text move": template(
        order=PromptOrder.TOOLS_FIRST, tools_last=True, system_last=True
    ),
    # the answer
    "answer: NO, most lost": {
        "record": record((1, 0, "cold"), (2, 33, "BREAK"), (3, 33, "BREAK"), (4, 17_000, "ok"))
    },
    "answer: MOSTLY": {"record": record((1, 0, "cold"), (2, 9_000, "BREAK"), (3, 17_000, "ok"))},
    "answer: YES, with a break": {
        "record": record((1, 0, "cold"), (2, 16_900, "BREAK"), (3, 17_000, "ok"))
    },
    "answer: NO, most cut": rows(seen(), cut(2, 18_000), cut(3, 18_000)),
    "answer: MOSTLY, some cut": rows(
        *(seen(n, n, reused=None) for n in (1, 2, 3)), *(cut(n, 18_000, None) for n in (4, 5))
    ),
    "answer: NO, one fails": rows(*TALK.rows, asked(9, "cline", 500)),
    "answer: YES, it failed before": rows(
        *(*TALK.rows, asked(9, "cline", 500)), *[seen(10, 2, reused=17_800, client="cline")] * 2
    ),
    "answer: YES, one malformed": rows(*TALK.rows, asked(9, "cline", 400)),
}


def examined(kind="llama-server", **more):
    """What is known, and all findings."""
    known = facts(kind, **({"record": recorded()} | more))
    return known, [finding for check in CHECKS for finding in check(known)]


USUAL = examined()[1]


def shown(name, known, findings):
    """The answer; each finding that is unusual, or that ``name`` is about; what is not there."""
    answer = conclude(known, findings)
    lines = [f"{answer.answer}: {answer.text}"]
    for one in findings:
        is_of_it = one.name == name.partition(":")[0]
        if one not in USUAL and (is_of_it or one.state is not FindingState.OK):
            lines.append(f"  {one.state} {one.name}: {one.text}")
            lines += [f"     fix: {one.fix}"] if one.fix else []
    left = {one.name for one in USUAL} - {one.name for one in findings}
    return "\n".join([*lines, *(f"  no {name}" for name in sorted(left))])


@pytest.mark.parametrize("name", CASES)
def test_what_is_said_of_it(name):
    golden.agrees(FILE, name, shown(name, *examined(**CASES[name])))


def test_the_usual_report():
    """Verdict first, a line for each finding; what mends it names the proxy that was asked."""
    known, findings = examined(proxy=replace(RUNS, url="http://127.0.0.1:9000", rules=()))
    golden.agrees(FILE, "the report", report_of(known, findings).text(Console(width=96)))


FINDINGS = (
    Finding("proxy", FindingState.OK, "it listens"),
    Finding("upstream", FindingState.WARN, "word " * 40, "do this"),
    Finding("reuse", FindingState.FAIL, "evil \x1b[31m name"),
)


@pytest.mark.parametrize("width", [60, 96])
@pytest.mark.parametrize("colour", [None, "1", ""])
def test_a_report_in_a_terminal(monkeypatch, width, colour):
    """No line is wider but for the last; control characters are spelt out; colours if wanted."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if colour:
        monkeypatch.setenv("NO_COLOR", colour)
    report = DoctorReport(Conclusion(Working.NO, "It is not. " * 12), FINDINGS)
    console = Console(file=io.StringIO(), force_terminal=colour is not None, width=width)
    text = report.text(console)
    assert ("\x1b[1;31mFAIL" in text) is (colour == "")
    if colour is None:
        assert all(len(line) <= width for line in text.splitlines()[:-1])
        if width == 96:
            golden.agrees(FILE, "a report", text)
    assert report.exit_code == 1
    assert replace(report, findings=FINDINGS[:2]).exit_code == 0
    assert report.json()["findings"][1]["fix"] == "do this"


def test_no_text_is_left_over():
    golden.complete(FILE, [*CASES, "the report", "a report"])
