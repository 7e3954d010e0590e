"""Whose requests are Cline's, and the date that stays: at the one place where it writes it."""

from __future__ import annotations

import cacheproxy_cline
import pytest
from cacheproxy_cline import CLINE

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

RULES = rules_of(cacheproxy_cline)
APIS = ("/v1/messages", "/v1/chat/completions", "/v1/responses")
SDK = {"User-Agent": "ai-sdk/openai-compatible/3.0.37 ai-sdk/provider-utils/5.0.30 runtime/bun"}
HEADS = (
    "You are Cline, an AI coding agent. Your primary goal is to assist users.",
    "You are Cline, a careful and helpful coding agent that works in the background.",
    "You are Cline, a highly skilled software engineer with extensive knowledge.",
    "You are Cline, a software engineering AI. Your mission is.",
    "You are Cline, a senior software engineer + precise task runner.",
)
OTHERS = ("claude-cli/2.1.329", "codex_exec/0.169.0", "opencode/1.18.33", "QwenCode/0.24.4")
ENV = (
    "\n\nEnvironment you are running in:\n"
    "<env>\n"
    "1. Platform: linux\n"
    "2. Date: {}\n"
    "3. IDE: Terminal Shell\n"
    "4. Working Directory: /home/me/project\n"
    "</env>\n\n"
)
DATES = [
    ("11/21/2026", "11/22/2026"),
    ("9/30/2026", "10/1/2026"),
    ("21.11.2026", "22.11.2026"),
    ("21. 11. 2026", "22. 11. 2026"),
    ("2026-11-21", "2026-11-22"),
    ("2026/11/21", "2026/11/22"),
    ("२१/११/२०२६", "२२/११/२०२६"),
]
NOTE = "\n\n<system-reminder>\nToday's date is now {}.\n</system-reminder>"
RULES_OF_THE_USER = "# Rules\nBe kind.\n"

each_api = pytest.mark.parametrize("path", APIS)


def turn(path, system, *said, headers=SDK):
    """A request with ``system``, and what the user and the model said in turns."""
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": text} for i, text in enumerate(said)]
    if path == "/v1/messages":
        return request(
            {"messages": messages, "system": [{"type": "text", "text": system}]}, path, headers
        )
    if path == "/v1/responses":
        return request({"input": messages, "instructions": system}, path, headers)
    return request({"messages": [{"role": "system", "content": system}, *messages]}, path, headers)


@each_api
@pytest.mark.parametrize("head", HEADS)
def test_the_first_sentence_tells_and_names_the_session(path, head):
    """Its user agent is an SDK's; not where another client names itself."""
    one = turn(path, head + ENV, "hi")
    assert CLINE.sent(one)
    assert declared_name(one, [CLINE]) == "cline"
    for agent in OTHERS:
        assert not CLINE.sent(turn(path, head, "hi", headers={"User-Agent": agent}))


@each_api
def test_the_user_agent_of_its_extension_tells(path):
    """With any system prompt."""
    assert CLINE.sent(turn(path, "Be kind.", "hi", headers={"User-Agent": "Cline/3.40.0"}))
    assert not CLINE.sent(turn(path, "Be kind.", "hi"))


@each_api
@pytest.mark.parametrize("agent", [*OTHERS, "ai-sdk/openai/1.0", "OpenAI/JS 6.26.0", ""])
def test_its_words_in_another_clients_request_change_nothing(path, agent):
    """A user, a model and a file may quote all of it."""
    earlier, later = (
        turn(
            path,
            f"You are somebody.\n{HEADS[0]}{ENV.format(date)}",
            *[HEADS[0] + ENV.format(date)] * 3,
            headers={"User-Agent": agent},
        )
        for date in DATES[0]
    )
    assert not CLINE.sent(later)
    assert_untouched(RULES, later, earlier)


@each_api
@pytest.mark.parametrize("dates", DATES)
def test_the_first_date_stays_and_the_new_one_is_told_once(path, dates):
    """As each country writes it; nothing else of the request changes."""
    said = ("hi", "ho", "next", "so", "and")
    told = ("hi", "ho", "next" + NOTE.format(dates[1]), "so", "and")
    system = HEADS[0] + ENV + RULES_OF_THE_USER
    first = turn(path, system.format(dates[0]), *said[:1])
    assert_untouched(RULES, first)
    previous = first
    for count in (3, 5):
        later = turn(path, system.format(dates[1]), *said[:count])
        with pytest.raises(AssertionError):
            assert_extends(previous, later)
        assert_idempotent(RULES, later, previous)
        sent = normalized(RULES, later, previous)
        assert sent.json == turn(path, system.format(dates[0]), *told[:count]).json
        assert_extends(previous, sent)
        previous = sent


QUOTES = {
    "a rule of the user's quotes it": ENV.format(DATES[0][0]) + RULES_OF_THE_USER + ENV,
    "a list of its own": "\n1. Platform: linux\n2. Date: {}\n3. IDE: x\n4. Working Directory: y\n",
    "in another order": ENV.replace("1. Platform: linux\n", ""),
    "no date in its place": ENV.replace("{}", "{}, which is a fine day to write some code"),
}


@each_api
@pytest.mark.parametrize("shape", QUOTES)
def test_any_other_date_is_somebodys_text(path, shape):
    """In system text, of a user, of the model."""
    earlier, later = (
        turn(path, HEADS[0] + QUOTES[shape].format(date), *[ENV.format(date)] * 3)
        for date in DATES[0]
    )
    assert_untouched(RULES, later, earlier)


@each_api
def test_two_conversations_with_the_same_first_prompt_are_two(path):
    """It names none: the answers tell them apart, and each keeps its own date."""
    store = Store()

    def sent(day, *said):
        one = turn(path, HEADS[0] + ENV.format(DATES[0][day]), *said)
        prepared = run(prepare(one, RULES, (), store))
        store.end(prepared.session, store.begin(prepared.turn, prepared.request), None)
        return prepared.session, int(f"2. Date: {DATES[0][1]}" in prepared.request.body.decode())

    one, day = sent(0, "hi", "one", "go on")
    assert day == 0
    other, day = sent(1, "hi", "two", "go on")
    assert other != one
    assert day == 1
    assert sent(1, "hi", "one", "go on", "a", "and") == (one, 0)
    assert sent(1, "hi", "two", "go on", "b", "and") == (other, 1)
