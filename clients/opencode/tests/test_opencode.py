"""Whose requests are opencode's, and the date that stays: at the one place where it writes it."""

from __future__ import annotations

from functools import partial

import cacheproxy_opencode
import pytest
from cacheproxy_opencode import CLIENT, KILO

from cacheproxy.testing import (
    APIS,
    assert_told_once,
    assert_untouched,
    conversation,
    from_another,
    rules_of,
)

RULES = rules_of(cacheproxy_opencode)
OWN = {"User-Agent": "opencode/1.18.33 ai-sdk/provider-utils/4.0.23 runtime/bun/1.3.14"}
PLAIN = {"User-Agent": "ai-sdk/openai-compatible/1.0.22 ai-sdk/provider-utils/3.0.15"}
HEADS = (
    "You are opencode, an interactive CLI tool that helps users.",
    "You are opencode, an agent - please keep going.",
    "You are OpenCode, the best coding agent on the planet.",
    "You are a coding agent running in the opencode, a terminal-based coding assistant. It is.",
)
OTHERS = ("claude-cli/2.1.329", "codex_exec/0.169.0", "QwenCode/0.24.4", "Cline/3.40")
ENV = (
    "Here is some useful information about the environment you are running in:\n"
    "<env>\n"
    "  Working directory: /home/me/project\n"
    "  Is directory a git repo: yes\n"
    "  Platform: linux\n"
    "  Today's date: {}\n"
    "</env>\n"
)
FIRST, LATER = "Sat Nov 21 2026", "Sun Nov 22 2026"
FILE = "Instructions from: /home/me/project/AGENTS.md\nBe kind.\n"

each_api = pytest.mark.parametrize("path", APIS)


turn = partial(conversation, headers=OWN)


def test_its_user_agent_tells():
    """Whatever the prompt begins with: an agent of the user's own, a title."""
    assert CLIENT.sent(turn(APIS[0], "You are a title generator.", "hi"))
    assert not CLIENT.sent(turn(APIS[0], "You are a title generator.", "hi", headers=PLAIN))


@each_api
@pytest.mark.parametrize("head", HEADS)
def test_else_the_beginning_of_its_system_text_tells(path, head):
    """Of versions before 1.1, and behind a gateway; not where another client names itself."""
    assert CLIENT.sent(turn(path, f"{head}\n{ENV.format(FIRST)}", "hi", headers=PLAIN))
    for agent in OTHERS:
        assert not CLIENT.sent(from_another(turn(path, head, "hi", headers={"User-Agent": agent})))


SHAPES = {
    "1.18": HEADS[0] + "\nYou are powered by the model named m.\n" + ENV + FILE,
    "1.0": HEADS[2] + "\n" + ENV + "<files>\n  \n</files>\n" + FILE,
    "0.5": HEADS[1] + "\n" + ENV + "<project>\n  src/\n</project>",
    "an agent of the user's": "You write tests.\n" + ENV,
}


@each_api
@pytest.mark.parametrize("shape", SHAPES)
def test_the_first_date_stays_and_the_new_one_is_told_once(path, shape):
    """Behind what the user says next, and there in all later turns; nothing else changes."""
    first, later = (partial(turn, path, SHAPES[shape].format(date)) for date in (FIRST, LATER))
    assert_told_once(RULES, first, later, f"Today's date is now {LATER}.")


QUOTES = {
    "a file quotes it": HEADS[0] + "\n" + ENV.format(FIRST) + FILE + ENV,
    "not in its block": HEADS[0] + "\nToday's date: {}\n",
    "not at the end of its block": HEADS[0] + "\n" + ENV.replace("</env>", "  More: 1\n</env>"),
    "without its first line": HEADS[0] + "\n" + ENV.split("\n", 1)[1],
    "in another spelling": HEADS[0] + "\n" + ENV.replace("{}", "{}, a fine day"),
    "too far down": HEADS[0] + "\n" + ENV.replace("<env>\n", "<env>\n" + "  Line: 1\n" * 8),
}


@each_api
@pytest.mark.parametrize("shape", QUOTES)
def test_any_other_date_is_somebodys_text(path, shape):
    """In system text, of a user, of the model."""
    earlier, later = (
        turn(path, QUOTES[shape].format(date), ENV.format(date), ENV.format(date), "x")
        for date in (FIRST, LATER)
    )
    assert_untouched(RULES, later, earlier)


KILO_AGENT = {"User-Agent": "Kilo-Code/7.7.9 ai-sdk/provider-utils/4.0.27 runtime/bun/1.3.14"}
KILO_ENV = ENV.replace(
    "</env>",
    "  Project config: .kilo/command/*.md, kilo.json, AGENTS.md.\n"
    "  Global config: /home/me/.config/kilo/ (same structure)\n</env>",
)


@each_api
@pytest.mark.parametrize("head", ["You are Kilo, the best coding agent on the planet.\n", "Own.\n"])
def test_kilo_is_a_fork_with_more_lines_behind_the_date(path, head):
    """Its session has its own name, and its rule is its own."""
    kilo = partial(conversation, headers=KILO_AGENT)
    first, later = (partial(kilo, path, head + KILO_ENV.format(date)) for date in (FIRST, LATER))
    assert_told_once(RULES, first, later, f"Today's date is now {LATER}.")
    asked = kilo(path, head + KILO_ENV.format(FIRST), "hi")
    assert (KILO.sent(asked), CLIENT.sent(asked)) == (True, False)
