"""What normalising costs: rule sets against one ``bytes.find`` pass over the same body.

    python benchmarks/normalising.py [--rounds 40] [--json]

Bodies of 80 KB, 500 KB and 2 MB: tools, a system text, messages of about 1 KB. Each body comes
without anything to edit, and with what the rule sets are for: an attribution header, or a stamp
before every user text. Cold: nothing is known of the conversation; warm: the turn before it is
in the memo, and what both share is found byte by byte, which is part of the time. All variants
take turns.

Printed: medians of CPU time in microseconds, MB/s, the multiple of one ``bytes.find`` for a text
that is not there (``find``), and what is left after three of these as a multiple of one pass of the
C JSON scanner (``json.loads`` of the decoded body). The bars: 3 finds where nothing needs editing;
3 finds and one scan where something does. ``turn`` is all that the proxy does to a turn before and
after the network: reading, editing, session, verdict (claude-code and openclaw together).
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

import cacheproxy_claude_code
import cacheproxy_openclaw

from cacheproxy.core.conversation.session import session_of
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.document.memo import Memo
from cacheproxy.core.kinds.profile import Profile
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.code_rule import Normalizer, settled
from cacheproxy.core.rules.fold import normalize
from cacheproxy.core.rules.rule import Rule
from cacheproxy.observe.verdicts import Verdicts
from cacheproxy.record.exchange import Exchange, Outcome

SIZES = (80_000, 500_000, 2_000_000)
WORDS = "the quick brown fox jumps over the lazy d\u00f6g, "
# As through a gateway: the prompt has to say whose request it is.
HEADERS = ((b"user-agent", b"bench/1"), (b"x-session-id", b"s"))
USERS = Rule("mine", "user", r"\bbuild #\d+", "build #0", literals=("build #",))
TOOLS_FIRST = Profile(order=PromptOrder.TOOLS_FIRST)
Work = Callable[[], object]


def chosen(package: Any) -> list[Normalizer]:
    """The rules that are on by default, as the proxy runs its own."""
    return [settled(rule, package.CLIENT) for rule in package.RULES if rule.default]


CLAUDE, OPENCLAW = chosen(cacheproxy_claude_code), chosen(cacheproxy_openclaw)
RULE_SETS: dict[str, list[Normalizer]] = {
    "none": [],
    "claude-code": CLAUDE,
    "openclaw": OPENCLAW,
    "both": CLAUDE + OPENCLAW,
    "a user's": [USERS],
}
MARKS = {
    "none": "",
    "claude-code": "header",
    "openclaw": "stamp",
    "both": "header",
    "a user's": "build",
}
"""What stands in a body for the rule set to edit."""


def body_of(size: int, turn: int, mark: str) -> bytes:
    """A conversation of about ``size`` bytes in its last turn but one, or in its last."""
    part = size // 4 // len(WORDS)
    tools = [{"name": f"t{n}", "description": WORDS * (2 * part // 20)} for n in range(20)]
    header = f"x-anthropic-billing-header: cc_version=2.1.9.abc; cch={turn:05x};"
    first = {"header": header, "stamp": "<!-- openclaw:attempt:STABLE -->"}.get(mark, "first")
    system = [{"type": "text", "text": first}, {"type": "text", "text": WORDS * (part // 2)}]
    messages = []
    for number in range(size * 3 // 8 // 1000 + turn):
        text = f"{number} " + WORDS * 18
        if mark == "stamp":
            text = f"[Wed 2026-02-18 20:{number % 60:02d} UTC] {text}"
        if mark == "build" and number % 10 == 0:
            text += f" build #{turn}{number}"
        messages.append({"role": ("user", "assistant")[number % 2], "content": text})
    body = {"model": "m", "messages": messages, "system": system, "tools": tools}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def request_of(body: bytes, memo: Memo) -> Request:
    """A request whose body nobody has seen: a copy, as one from the network is."""
    return Request("POST", "/v1/messages", HEADERS, bytes(bytearray(body)), memo)


@dataclass
class Case:
    """One variant, and its times in seconds."""

    size: int
    rules: str
    edits: bool
    state: str
    work: Work
    times: list[float] = field(default_factory=list)

    @property
    def microseconds(self) -> float:
        return statistics.median(self.times) * 1e6


def cases_of(size: int) -> Iterator[Case]:
    plain = body_of(size, 1, "")
    text = "a text that is not there"
    yield Case(size, "find", False, "", lambda: plain.find(text.encode()))
    yield Case(size, "scan", False, "", lambda: json.loads(plain.decode()))
    for name, rules in RULE_SETS.items():
        for mark in dict.fromkeys(("", MARKS[name])):
            was, body = (body_of(size, turn, mark) for turn in (0, 1))
            yield Case(size, name, bool(mark), "cold", normalising([body], rules))
            yield Case(size, name, bool(mark), "warm", normalising([was, body], rules))
    for mark in ("", "header"):
        turns = [body_of(size, turn, mark) for turn in (0, 1)]
        yield Case(size, "turn", bool(mark), "cold", lambda turns=turns: Turns().take(turns[1]))
        known = Turns()
        known.take(turns[0])
        yield Case(size, "turn", bool(mark), "warm", known.alternately(turns))


def normalising(bodies: list[bytes], rules: list[Normalizer]) -> Work:
    """One body with a new memo each time; two by turns, with one memo."""
    memo, turns = Memo(), cycle(bodies)
    if len(bodies) == 1:
        return lambda: normalize(request_of(bodies[0], Memo()), rules)
    return lambda: normalize(request_of(next(turns), memo), rules)


class Turns:
    """A session, from a request's bytes to the verdict."""

    def __init__(self) -> None:
        self.known = Verdicts(Store())
        self.memo = Memo()
        self.number = 0

    def take(self, body: bytes) -> None:
        received = request_of(body, self.memo)
        done = normalize(received, RULE_SETS["both"])
        sent = done.request
        assert sent.document is not None
        session = session_of(sent)
        exchange = Exchange(
            received=received,
            sent=sent,
            reports=done.reports,
            session=session,
            turn=1,
            upstream="",
            status=200,
            outcome=Outcome.COMPLETE,
            usage=Usage(20_000, 19_990),
            wall=0.0,
            first_byte=0.0,
            seconds=0.0,
            bytes_down=0,
        )
        self.known.judge(exchange, TOOLS_FIRST)

    def alternately(self, turns: list[bytes]) -> Work:
        """Take the one and the other, so that each goes on from the one before."""

        def work() -> None:
            self.number += 1
            self.take(turns[self.number % 2])

        return work


def measure(cases: list[Case], rounds: int) -> None:
    for number in range(rounds + 1):
        for case in cases:
            repeat = max(1, 400_000 // case.size)
            start = time.process_time()
            for _ in range(repeat):
                case.work()
            if number:  # the first round warms Python's own caches
                case.times.append((time.process_time() - start) / repeat)


def rows_of(cases: list[Case]) -> Iterator[dict[str, object]]:
    by_size = {(case.size, case.rules): case.microseconds for case in cases if not case.state}
    for case in cases:
        find, scan = by_size[case.size, "find"], by_size[case.size, "scan"]
        taken = case.microseconds
        yield {
            "size": case.size,
            "rules": case.rules,
            "edits": case.edits,
            "state": case.state,
            "microseconds": round(taken, 1),
            "mb_per_second": round(case.size / taken),
            "finds": round(taken / find, 2),
            "scans_beyond_3_finds": round(max(0.0, taken - 3 * find) / scan, 2),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    options = parser.parse_args()
    if not options.json:
        print("   size  rules        edits  state        µs    MB/s   finds   scans beyond 3 finds")
    for size in SIZES:
        cases = list(cases_of(size))
        measure(cases, options.rounds)
        for row in rows_of(cases):
            if options.json:
                print(json.dumps(row))
                continue
            edits = "yes" if row["edits"] else "no"
            print(
                f"{row['size']:>7,}  {row['rules']:<12} {edits:<6} {row['state']:<5}"
                f" {row['microseconds']:>9,}  {row['mb_per_second']:>6,} {row['finds']:>7}"
                f" {row['scans_beyond_3_finds']:>10}"
            )


if __name__ == "__main__":
    main()
