"""Whose requests are pi's, and the date that stays: at the one place where it writes it."""

from __future__ import annotations

from functools import partial

import cacheproxy_pi
import pytest
from cacheproxy_pi import CLIENT, OMP

from cacheproxy.core.prompt.client import Clients
from cacheproxy.testing import (
    APIS,
    assert_told_once,
    assert_untouched,
    conversation,
    from_another,
    request,
    rules_of,
)

RULES = rules_of(cacheproxy_pi)
SDK = {"User-Agent": "OpenAI/JS 6.26.0"}
OWN = ("pi/1.5.2 (linux; node/v24.21.0; x64)", "pi", "pi-coding-agent")
HEADS = (
    "You are a coding assistant running inside pi, a coding agent harness. Help users.",
    "You are an expert coding assistant operating inside pi, a coding agent harness. You help.",
    "You are an expert coding assistant. You help users with coding tasks by reading files, and.",
)
OTHERS = ("claude-cli/2.1.329", "codex_exec/0.169.0", "opencode/1.18.33", "Cline/3.40")
DATES = {
    "0.73": ("Current date", "2026-11-21", "2026-11-22"),
    "0.52": (
        "Current date and time",
        "Saturday, November 21, 2026 at 11:58:12 PM GMT+1",
        "Sunday, November 22, 2026 at 12:03:40 AM GMT+1",
    ),
}
FILES = "\n\n# Project Context\n\n## /home/me/AGENTS.md\n\nBe kind.\n"

turn = partial(conversation, headers=SDK)
each_api = pytest.mark.parametrize("path", APIS)


def end(version, day):
    """The last lines of the system text on ``day``, 1 or 2."""
    name, *dates = DATES[version]
    return f"\n{name}: {dates[day - 1]}\nCurrent working directory: /home/me/project"


@each_api
@pytest.mark.parametrize("head", HEADS)
def test_the_first_sentence_tells_and_names_the_session(path, head):
    """Its user agent is an SDK's; not where another client names itself."""
    one = turn(path, f"{head}\n\nAvailable tools:\n", "hi")
    assert CLIENT.sent(one)
    assert Clients([CLIENT]).name_of(one) == "pi"
    for agent in OTHERS:
        assert not CLIENT.sent(from_another(turn(path, head, "hi", headers={"User-Agent": agent})))


@pytest.mark.parametrize("agent", OWN)
def test_a_user_agent_of_its_own_tells(agent):
    """With any system prompt."""
    assert CLIENT.sent(turn(APIS[0], "Be kind.", "hi", headers={"User-Agent": agent}))
    assert not CLIENT.sent(turn(APIS[0], "Be kind.", "hi", headers={"User-Agent": f"x{agent}"}))


@each_api
@pytest.mark.parametrize("version", DATES)
@pytest.mark.parametrize("files", ["", FILES])
def test_the_first_date_stays_and_the_new_one_is_told_once(path, version, files):
    """Behind what the user says next, and there in all later turns; nothing else changes."""
    first, later = (partial(turn, path, HEADS[1] + files + end(version, day)) for day in (1, 2))
    assert_told_once(RULES, first, later, f"Today's date is now {DATES[version][2]}.")


QUOTES = {
    "a file quotes it": FILES + "{}\n" + end("0.73", 1),
    "no directory behind it": "\nCurrent date: {0}",
    "in the middle of a line": "\nThe Current date: {0}\nCurrent working directory: /home/me",
    "text behind it": "{}\n\nBe kind.",
    "a line between": "\nCurrent date: {0}\n\nCurrent working directory: /home/me",
}


@each_api
@pytest.mark.parametrize("shape", QUOTES)
def test_any_other_date_is_somebodys_text(path, shape):
    """In system text, of a user, of the model."""
    shape = QUOTES[shape].replace("{}", "\nCurrent date: {0}\nCurrent working directory: /home/me")
    earlier, later = (
        turn(path, HEADS[1] + shape.format(date), *[f"{shape.format(date)}\n\n"] * 3)
        for date in DATES["0.73"][1:]
    )
    assert_untouched(RULES, later, earlier)


def test_blanks_behind_the_directory_are_read_but_once():
    """Else a file that quotes the line and goes on with blanks takes hours."""
    quote = end("0.73", 1) + " " * 500_000 + "x\n\n"
    earlier, later = (turn(APIS[0], HEADS[1] + quote + end("0.73", day), "hi") for day in (1, 2))
    assert_untouched(RULES, later, earlier)


OMP_AGENT = {"User-Agent": "omp/18.2.3"}
GIVEN = (
    "<system-reminder>\nToday: {}; current working directory: '/home/me'. Do not repeat this.\n"
    "</system-reminder>"
)


def omp(date, *said, headers=OMP_AGENT, given=GIVEN):
    """A conversation of Oh My Pi's, whose first message begins with the date."""
    one = conversation(APIS[1], "Be.", *said, headers=headers).json
    first = next(message for message in one["messages"] if message["role"] == "user")
    texts = [given.format(date), first["content"]]
    first["content"] = [{"type": "text", "text": text} for text in texts]
    return request(one, APIS[1], headers)


def test_oh_my_pi_is_a_fork_with_its_date_in_the_first_message():
    """It is told once; not another client's, and not a text that a user typed."""
    assert OMP.sent(omp("2026-11-21", "hi"))
    first, later = (partial(omp, date) for date in ("2026-11-21", "2026-11-22"))
    assert_told_once(RULES, first, later, "Today's date is now 2026-11-22.")
    for changes in (
        {"headers": SDK},
        {"given": f"Look: {GIVEN}"},
        {"given": GIVEN.replace("</", "")},
        {"given": GIVEN.replace("; current", ", current")},
    ):
        earlier, changed = (
            omp(date, GIVEN.format(date), "x", GIVEN.format(date), **changes)
            for date in ("2026-11-21", "2026-11-22")
        )
        assert_untouched(RULES, changed, earlier)
