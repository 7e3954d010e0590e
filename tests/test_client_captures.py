"""Recorded sessions of each client: what its package makes of them, turn by turn.

The texts stand in captures.txt beside the tests of each package: whose the requests are, which
turns part from the one before, as they come, with the rules that are on, and with all; each edit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from cacheproxy.core.adapt.late import place
from cacheproxy.core.conversation.session import parent_of
from cacheproxy.core.kinds.placement import Late, alike
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.code_rule import Normalizer
from cacheproxy.core.rules.fold import normalize
from cacheproxy.testing import (
    assert_extends,
    capture_name,
    find_captures,
    load_capture,
    normalized,
    parted,
)
from tests import golden, installed

ROOT = Path(__file__).parents[1]
PACKAGES = installed.packages()
RULES = PACKAGES.normalizers()
ON = [rule for rule in RULES if rule.default]
PACKAGE_OF = {
    "claude": "claude-code",
    "gemini": "gemini-cli",
    "kilo": "opencode",
    "omp": "pi",
    "qwen": "qwen-code",
}
"""Where it is not the capture's first word."""
CAPTURES = find_captures("*.jsonl", __file__)
CLAUDES = find_captures("claude*.jsonl", __file__)
PLACEMENTS = [alike(Late.REFUSED, "test"), alike(Late.REFUSED, "test", joins=True)]
"""Of servers that refuse late system messages: in place, and joined."""
_LONG = 100


def conversations(path: Path) -> dict[tuple[str, str], list[Request]]:
    """The turns of each session with the same tools, as the proxy tells sessions apart."""
    found: dict[tuple[str, str], list[Request]] = {}
    for one in map(PACKAGES.clients.introduce, load_capture(path)):
        if one.method == "POST" and one.json and "count_tokens" not in one.path:
            session = PACKAGES.session(one)
            root = parent_of(one, session)
            whose = f"{session.name} of {root.name}" if root else session.name
            has_tools = len(one.json.get("tools") or ())
            key = (f"{whose} {one.path}", "tools" * bool(has_tools > 10) or f"{has_tools} tools")
            found.setdefault(key, []).append(one)
    return found


def short(text: str) -> str:
    """A text, of a long one both ends and its length."""
    shown = text if len(text) <= _LONG else f"{text[:60]}…{text[-30:]} ({len(text):,} characters)"
    return json.dumps(shown, ensure_ascii=False)


def edits(turns: Sequence[Request], rules: Sequence[Normalizer]) -> Iterator[str]:
    """Each edit, and the turns in which it is made."""
    found: dict[str, list[int]] = {}
    previous = None
    for number, turn in enumerate(turns, 1):
        done = normalize(turn, rules, previous)
        for report in done.reports:
            assert report.error is None
            for edit in report.edits:
                new = short(
                    edit.new if isinstance(edit.new, str) else json.dumps(edit.new, default=str)
                )
                how = "+" * edit.adds or (
                    edit.span is not None and f"{edit.span[0]}:{edit.span[1]}"
                )
                line = f"{report.rule} {edit.path} {how or ''} = {new}"
                found.setdefault(line, []).append(number)
        previous = done.request
    for line, numbers in found.items():
        yield f"  {line}   in {runs(numbers)}"


def runs(numbers: Sequence[int]) -> str:
    """Numbers in words: 1-3, 5."""
    text = ",".join(map(str, numbers))
    first, last = numbers[0], numbers[-1]
    return (
        f"{first}-{last}"
        if len(numbers) > 2 and list(numbers) == [*range(first, last + 1)]
        else text
    )


def described(path: Path) -> Iterator[str]:
    for (whose, tools), turns in conversations(path).items():
        apart = [[number + 1 for number in parted(turns, rules)] for rules in ((), ON, RULES)]
        yield f"{whose}, {tools}: {len(turns)} turns; apart {apart[0]}, {apart[1]}, {apart[2]}"
        yield from edits(turns, ON)


@pytest.mark.parametrize("path", CAPTURES, ids=capture_name)
def test_what_the_rules_make_of_it(path):
    """A second pass changes nothing; what the rules name is edited, once where it changed."""
    name = re.split("[-_]", capture_name(path))[0]
    file = ROOT / "clients" / PACKAGE_OF.get(name, name) / "tests" / "captures.txt"
    golden.agrees(file, capture_name(path), "\n".join(described(path)))


@pytest.mark.slow  # placing itself: tests/core/adapt
@pytest.mark.parametrize("path", CLAUDES, ids=capture_name)
def test_placed_no_system_message_is_left_but_the_head(path):
    """Joined, users and the assistant alternate, and results follow their calls; turns extend."""
    for turns in conversations(path).values():
        previous = None
        for number, one in enumerate(turns):
            current = normalized(ON, one, previous)
            apart = previous is not None and bool(parted([previous, current]))
            for placement in PLACEMENTS:
                now = placed(current, placement)
                assert "system" not in [message["role"] for message in now.json["messages"]]
                if number and not apart:
                    assert_extends(placed(previous, placement), now)
            messages = now.json["messages"]
            roles = [message["role"] for message in messages]
            assert roles == [("user", "assistant")[i % 2] for i in range(len(roles))]
            for earlier, later in pairwise(messages):
                blocks = [block for block in earlier["content"] if isinstance(block, dict)]
                calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
                results = [
                    block["tool_use_id"] for block in later["content"][: len(calls)] if calls
                ]
                assert results == calls
            previous = current


def placed(one: Request, placement) -> Request:
    """What goes on for a request whose late system messages have to be placed."""
    after, report = place(one, placement)
    assert report is None or report.error is None
    assert place(after, placement) == (after, None)
    return after
