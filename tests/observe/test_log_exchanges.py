"""One line per exchange: figures and a verdict, and nothing of what was said."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import (
    Basis,
    Break,
    Judgement,
    Reason,
    Sign,
    TokenCount,
    Verdict,
)
from cacheproxy.core.diff.kind import ChangeKind
from cacheproxy.core.document.edits import Edit
from cacheproxy.core.placement.placement import Late, alike
from cacheproxy.core.placement.placing import place
from cacheproxy.core.placement.refusal import WITHHELD
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.fold import RuleReport
from cacheproxy.observe.log import LogLine
from cacheproxy.record.exchange import Outcome
from cacheproxy.record.logline import lines, verdict
from tests.observe import exchanges

SECRET = "kanarienvogel"
BODY = json.dumps(
    {
        "model": SECRET,
        "system": SECRET,
        "messages": [{"role": "user", "content": SECRET}, {"role": "assistant", "content": "x"}],
    }
).encode()
RECEIVED = Request(
    "POST",
    f"/v1/messages?key={SECRET}",
    ((b"Authorization", SECRET.encode()),),
    BODY,
)


EDITS = (Edit("/system/0/text", "x", "a nonce"), Edit("/messages/0/content", "y", "a date"))


def exchange(**changes):
    """A turn that went well, but for ``changes``."""
    fields = {
        "received": RECEIVED,
        "sent": RECEIVED,
        "session": Session("claude", "3f9a-1111"),
        "turn": 14,
        "verdict": Verdict(Judgement.OK),
        "usage": Usage(18_211, 17_928, 412, 0.5, 12.5),
        "first_byte": 0.94,
        "seconds": 13.4,
        "bytes_down": 4000,
    }
    return replace(exchanges.exchange({}), **fields | changes)


def line(**changes):
    """Its one line, without the time of day."""
    (found,) = lines(exchange(**changes))
    clock, rest = found.split(" ", 1)
    assert re.fullmatch(r"\d\d:\d\d:\d\d", clock)
    assert SECRET not in rest
    return rest


def test_a_turn():
    """Who, which turn, prompt, reused and new together, first token, output, verdict."""
    assert line() == (
        "claude/3f9a  #14    18,211 tok   98% reused      +283 new    0.9s first   412 out 33/s  ok"
    )


def test_of_several_upstreams_the_line_says_which_and_what_moved():
    """The tokens are those that had to be evaluated where it went."""
    assert line(server="big", was_at="big").endswith("  ok  at big")
    lost = Verdict(Judgement.BREAK, Reason.MOVED, lost=TokenCount(18_211, "measured"))
    for changes, tokens in (({}, "283"), ({"verdict": lost}, "18,211")):
        first, second = lines(exchange(server="big2", was_at="big", **changes))
        assert first.endswith("  at big2")
        assert second.strip() == f"moved: big -> big2, {tokens} tokens"
    _, second = lines(exchange(server="big2", was_at="big", usage=Usage()))
    assert second.strip() == "moved: big -> big2"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"usage": Usage()}, "tokens not reported"),
        ({"usage": Usage(prompt=100)}, "    100 tok  reuse not reported"),
        ({"usage": Usage(0, 0)}, "      0 tok    0% reused        +0 new"),
        ({"usage": Usage(10, 5, 7)}, "   7 out  "),
        ({"usage": Usage(10, 5, 7, None, 0.0)}, "   7 out  "),
        ({"session": None}, "-            #14"),
    ],
)
def test_what_the_server_does_not_say_is_not_made_up(changes, words):
    """An unknown figure is left out, or said to be unknown; so is the time to no first byte."""
    assert words in line(**changes)
    assert "first" not in line(**changes, first_byte=None)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "ok"),
        ({"turn": 1, "verdict": Verdict(Judgement.COLD)}, "cold"),
        ({"verdict": Verdict(Judgement.UNKNOWN)}, "-"),
        ({"verdict": None}, "-"),
        ({"side": True}, "side"),
        ({"outcome": Outcome.CLIENT_LEFT}, "CLIENT LEFT"),
        ({"outcome": Outcome.CLIENT_LEFT, "status": None}, "CLIENT LEFT"),
        (
            {"outcome": Outcome.UPSTREAM_FAILED, "error": "it broke off"},
            "UPSTREAM FAILED: it broke off",
        ),
        ({"outcome": Outcome.REFUSED, "error": "too large"}, "REFUSED: too large"),
    ],
)
def test_the_verdict(changes, expected):
    """It ends the line."""
    assert verdict(exchange(**changes)) == expected
    assert line(**changes).endswith("  " + expected)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "POST /v1/messages  200  13400 ms"),
        ({"session": None, "status": 404}, "POST /v1/messages  404  13400 ms"),
        (
            {"session": None, "status": 401, "error": "no key"},
            'POST /v1/messages  401  13400 ms: "no key"',
        ),
        (
            {"status": None, "outcome": Outcome.CLIENT_LEFT, "seconds": 0.0123},
            "POST /v1/messages  -  12 ms  CLIENT LEFT",
        ),
        (
            {"session": None, "status": 502, "outcome": Outcome.UPSTREAM_FAILED, "error": "down"},
            "POST /v1/messages  502  13400 ms  UPSTREAM FAILED: down",
        ),
        (
            {"received": Request("POST", "/v1/messages/count_tokens"), "status": 400},
            "POST /v1/messages/count_tokens  400  13400 ms",
        ),
    ],
)
def test_a_request_that_is_no_turn(changes, expected):
    """Method, path without its query, status, time."""
    assert line(turn=0, **changes) == expected


LLAMA = ((b"Server", b"llama.cpp"),)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"status": 500}, "500 from the upstream"),
        (
            {"status": 400, "error": "no such slot", "response_headers": LLAMA},
            '400 from llama-server: "no such slot"',
        ),
        (
            {"status": 404, "error": "File Not Found", "response_headers": LLAMA},
            '404 from llama-server at /v1/messages: "File Not Found"',
        ),
        ({"status": 422, "error": WITHHELD}, f"422 from the upstream: {WITHHELD}"),
        (
            {"status": 502, "outcome": Outcome.UPSTREAM_FAILED, "error": "it is down"},
            "502 UPSTREAM FAILED: it is down",
        ),
        (
            {"status": 400, "reports": (RuleReport("billing", EDITS),)},
            "400 from the upstream  (2 edits by rule billing)",
        ),
    ],
)
def test_a_prompt_that_was_turned_down(changes, expected):
    """Whose it was, by whom, and in which words."""
    assert line(turn=0, **changes) == f"claude/3f9a  {expected}"


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        (f"/v1/models;key={SECRET}?key={SECRET}", "/v1/models;redacted"),
        (f"//me:{SECRET}@host/v1/models", "//host/v1/models"),
        ("/v1/sk-ant-api03-7f3a9bcc41d0/models", "/v1/redacted-redacted-redacte/models"),
        ("/" + "x" * 30_000, "/" + "x" * 199 + "…"),
    ],
)
def test_a_path_is_shown_without_what_may_be_a_key(target, shown):
    """And never all of its 32 kilobytes."""
    received = Request("GET", target)
    given = line(turn=0, received=received, session=None)
    assert f"GET {shown}  200" in given


def test_edits_are_counted_by_rule():
    """A rule that did nothing is not named."""
    reports = (
        RuleReport("billing", EDITS),
        RuleReport("failed", error="KeyError"),
        RuleReport("date", EDITS[:1]),
    )
    assert line(reports=reports).endswith("  ok  (2 edits by rule billing, 1 edit by rule date)")


def test_late_system_messages_are_counted_by_messages():
    """One may take several edits; those of the rules are told behind."""
    body = {"system": "s", "messages": [{"role": "user", "content": "hi"}]}
    body["messages"] += [
        {"role": "system", "content": "x", "n": 1},
        {"role": "system", "content": ""},
    ]
    asked = Request("POST", "/v1/messages", (), json.dumps(body).encode())
    for joins in (False, True):
        after, report = place(asked, alike(Late.REFUSED, "test", joins=joins))
        said = line(received=asked, sent=after, reports=(report,))
        assert said.endswith("  ok  (placed 2 late system messages)")
        more = (report, RuleReport("billing", EDITS[:1]))
        said = line(received=asked, sent=after, reports=more)
        assert said.endswith("  ok  (placed 2 late system messages; 1 edit by rule billing)")


def test_verbose_adds_sizes_and_each_edit():
    """Still no text of the body: a path, and the rule's own reason."""
    found = list(lines(exchange(reports=(RuleReport("billing", EDITS),)), verbose=True))
    assert found[1] == f"         body {len(BODY)} bytes, sent {len(BODY)}, answer 4,000"
    assert found[2:] == [
        "         billing: /system/0/text: a nonce",
        "         billing: /messages/0/content: a date",
    ]
    assert len(list(lines(exchange(received=Request("GET", "/"), sent=None), verbose=True))) == 1
    assert "sent 0, answer" in list(lines(exchange(sent=None), verbose=True))[1]


counts = st.none() | st.integers(0, 10**9)
seconds = st.none() | st.floats(0, 1e6)


@given(
    st.builds(Usage, counts, counts, counts, seconds, seconds),
    st.fixed_dictionaries(
        {
            "outcome": st.sampled_from(Outcome),
            "status": st.none() | st.integers(100, 999),
            "turn": st.integers(0, 1000),
            "side": st.booleans(),
            "first_byte": seconds,
        }
    ),
)
def test_every_exchange_has_a_line(usage, fields):
    """Of printable text, whatever the figures are."""
    (found,) = lines(exchange(usage=usage, **fields))
    assert found.isprintable()
    assert SECRET not in found


def test_lines_that_come_together_are_one_event(events):
    """As text of its own, in which braces mean nothing."""
    paths = ["/{braces}/{0}", "/1", "/2"]
    seen = [exchange(received=Request("GET", path), turn=0) for path in paths]
    LogLine(verbose=False).cacheproxy_exchange_finished(seen)
    (event,) = events
    assert [text.split()[2] for text in event["text"].splitlines()] == paths
    assert event["log_format"] == "{text}"


def test_counts_of_tokens_that_went_well_are_not_logged(events):
    """A client asks for two dozen at once; those that fail, and all if verbose, have their line."""
    counting = Request("POST", "/v1/messages/count_tokens")
    for verbose, statuses in ((False, (200, 500)), (True, (200,))):
        seen = [exchange(received=counting, turn=0, status=status) for status in statuses]
        LogLine(verbose=verbose).cacheproxy_exchange_finished(seen)
    assert [each["text"].splitlines()[0].split()[3] for each in events] == ["500", "200"]


HERE = Break(
    "/messages/0/content/0/text",
    9204,
    TokenCount(2611, "estimated"),
    ChangeKind.DATE,
    SECRET,
    SECRET,
)


@pytest.mark.parametrize(
    ("judged", "said", "cure"),
    [
        (
            Verdict(Judgement.BREAK, Reason.MESSAGES_CHANGED, HERE),
            "messages_changed: ~13.8% shared, then date in /messages/0/content/0/text.",
            " --propose",
        ),
        (  # the server's own, and what shows it
            Verdict(
                Judgement.BREAK,
                Reason.EVICTED,
                expected=TokenCount(18_400, "measured"),
                evidence=(Sign.OTHERS,),
                basis=Basis.RENDERED,
            ),
            "evicted: the server still had 2,611 of 18,400 tokens that both prompts share: "  # noqa: ISC004
            "another conversation had its place meanwhile.",
            "",
        ),
        (  # nobody can explain it, but what it was not is known
            Verdict(Judgement.BREAK, Reason.UNKNOWN, ruled_out=("the rendered prompts agree",)),
            "unknown: no cause found (ruled out: the rendered prompts agree).",
            "",
        ),
    ],
)
@pytest.mark.parametrize("proxy", ["", " --proxy http://127.0.0.1:9000"])
def test_a_break_has_a_second_line_that_says_why(judged, said, cure, proxy):
    """Reason, share, kind and place, and how to learn more; never the text.

    The command is whole: it finds this proxy, and proposes a rule where one may help.
    """
    told = exchange(number=812, usage=Usage(18_904, 2_611), verdict=judged)
    found = list(lines(told, proxy=proxy))
    assert found[0].split("  (")[0].endswith("BREAK")
    command = f"cacheproxy diagnose 812{cure}{proxy}"
    assert [each.strip() for each in found[1:]] == [f"{said}   {command}"]


def test_a_change_of_which_the_cost_is_not_known_is_named():
    """Nothing was measured, so it is no break; but here is where to look, if it was one."""
    where = Break("/tools/0", 0, TokenCount(40, "estimated"), ChangeKind.ADDED, SECRET, SECRET)
    unmeasured = Verdict(Judgement.UNKNOWN, Reason.TOOLS_CHANGED, where)
    first, second = lines(exchange(number=812, usage=Usage(18_904), verdict=unmeasured))
    assert first.split("  (")[0].endswith(" -")
    assert second.strip().startswith("tools_changed: ~0.2% shared, then added in /tools/0")


def test_a_conversation_that_began_elsewhere_says_so():
    """The break that a restart of the proxy may cost is explained."""
    begun = Verdict(Judgement.COLD, evidence=(Sign.BEGUN_ELSEWHERE,))
    turn = exchange(usage=Usage(18_904, 12), verdict=begun)
    first, second = lines(turn, proxy=" --proxy http://127.0.0.1:9000")
    assert first.split("  (")[0].endswith("cold")
    assert second.strip() == Sign.BEGUN_ELSEWHERE
