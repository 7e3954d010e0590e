"""Whose requests are pi's, and the date that stays: at the one place where it writes it."""

from __future__ import annotations

import cacheproxy_pi
import pytest
from cacheproxy_pi import PI

from cacheproxy.core.conversation.prepare import prepare
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.prompt.client import declared_name
from cacheproxy.core.rules.fold import run
from cacheproxy.testing import (
    assert_extends,
    assert_idempotent,
    assert_untouched,
    normalized,
    request,
    rules_of,
)

RULES = rules_of(cacheproxy_pi)
APIS = ("/v1/messages", "/v1/chat/completions", "/v1/responses")
SDK = {"User-Agent": "OpenAI/JS 6.26.0"}
OWN = (
    "pi/1.5.2 (linux; node/v24.21.0; x64)",
    "pi",
    "pi-coding-agent",
)
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
NOTE = "\n\n<system-reminder>\nToday's date is now {}.\n</system-reminder>"
FILES = "\n\n# Project Context\n\n## /home/me/AGENTS.md\n\nBe kind.\n"

each_api = pytest.mark.parametrize("path", APIS)
each_date = pytest.mark.parametrize("version", DATES)


def turn(path, system, *said, headers=SDK):
    """A request with ``system``, and what the user and the model said in turns."""
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": text} for i, text in enumerate(said)]
    if path == "/v1/messages":
        return request({"messages": messages, "system": system}, path, headers)
    name = "input" if path == "/v1/responses" else "messages"
    return request({name: [{"role": "developer", "content": system}, *messages]}, path, headers)


def end(version, day):
    """The last lines of the system text on ``day``, 1 or 2."""
    name, *dates = DATES[version]
    return f"\n{name}: {dates[day - 1]}\nCurrent working directory: /home/me/project"


@each_api
@pytest.mark.parametrize("head", HEADS)
def test_the_first_sentence_tells_and_names_the_session(path, head):
    """Its user agent is an SDK's; not where another client names itself."""
    one = turn(path, f"{head}\n\nAvailable tools:\n", "hi")
    assert PI.sent(one)
    assert declared_name(one, [PI]) == "pi"
    for agent in OTHERS:
        assert not PI.sent(turn(path, head, "hi", headers={"User-Agent": agent}))


@each_api
@pytest.mark.parametrize("agent", OWN)
def test_a_user_agent_of_its_own_tells(path, agent):
    """With any system prompt."""
    assert PI.sent(turn(path, "Be kind.", "hi", headers={"User-Agent": agent}))
    assert not PI.sent(turn(path, "Be kind.", "hi", headers={"User-Agent": f"x{agent}"}))


@each_api
@pytest.mark.parametrize("agent", [*OTHERS, "OpenAI/JS 6.26.0", "pico/1.0", ""])
def test_its_words_in_another_clients_request_change_nothing(path, agent):
    """A user, a model and a file may quote all of it."""
    headers = {"User-Agent": agent}
    earlier, later = (
        turn(
            path,
            f"You are somebody.\n{HEADS[1]}{end('0.73', day)}",
            *[HEADS[1] + end("0.73", day)] * 3,
            headers=headers,
        )
        for day in (1, 2)
    )
    assert not PI.sent(later)
    assert_untouched(RULES, later, earlier)


@each_api
@each_date
@pytest.mark.parametrize("files", ["", FILES])
def test_the_first_date_stays_and_the_new_one_is_told_once(path, version, files):
    """Behind what the user says next, and there in all later turns; nothing else changes."""
    said = ("hi", "ho", "next", "so", "and")
    told = ("hi", "ho", "next" + NOTE.format(DATES[version][2]), "so", "and")
    first = turn(path, HEADS[1] + files + end(version, 1), *said[:1])
    assert_untouched(RULES, first)
    previous = first
    for count in (3, 5):
        later = turn(path, HEADS[1] + files + end(version, 2), *said[:count])
        with pytest.raises(AssertionError):
            assert_extends(previous, later)
        assert_idempotent(RULES, later, previous)
        sent = normalized(RULES, later, previous)
        assert sent.body == turn(path, HEADS[1] + files + end(version, 1), *told[:count]).body
        assert_extends(previous, sent)
        previous = sent


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


@each_api
def test_two_conversations_with_the_same_first_prompt_are_two(path):
    """It names none: the answers tell them apart, and each keeps its own date."""
    store = Store()

    def sent(day, *said):
        prepared = run(prepare(turn(path, HEADS[1] + end("0.73", day), *said), RULES, (), store))
        store.end(prepared.session, store.begin(prepared.turn, prepared.request), None)
        date = DATES["0.73"][1] in prepared.request.body.decode()
        return prepared.session, 1 if date else 2

    one, day = sent(1, "hi", "one", "go on")
    assert day == 1
    other, day = sent(2, "hi", "two", "go on")
    assert other != one
    assert day == 2
    assert sent(2, "hi", "one", "go on", "a", "and") == (one, 1)
    assert sent(2, "hi", "two", "go on", "b", "and") == (other, 2)


def test_blanks_behind_the_directory_are_read_but_once():
    """Else a file that quotes the line and goes on with blanks takes hours."""
    quote = end("0.73", 1) + " " * 500_000 + "x\n\n"
    earlier, later = (turn(APIS[0], HEADS[1] + quote + end("0.73", day), "hi") for day in (1, 2))
    assert_untouched(RULES, later, earlier)
