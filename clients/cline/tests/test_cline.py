"""Whose requests are Cline's, and the date that stays: at the one place where it writes it."""

from __future__ import annotations

from functools import partial

import cacheproxy_cline
import pytest
from cacheproxy_cline import CLIENT

from cacheproxy.core.prompt.client import Clients
from cacheproxy.testing import (
    APIS,
    assert_told_once,
    assert_untouched,
    conversation,
    from_another,
    rules_of,
)

RULES = rules_of(cacheproxy_cline)
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
RULES_OF_THE_USER = "# Rules\nBe kind.\n"

turn = partial(conversation, headers=SDK)
each_api = pytest.mark.parametrize("path", APIS)


@each_api
@pytest.mark.parametrize("head", HEADS)
def test_the_first_sentence_tells_and_names_the_session(path, head):
    """Its user agent is an SDK's; not where another client names itself."""
    one = turn(path, head + ENV, "hi")
    assert CLIENT.sent(one)
    assert Clients([CLIENT]).name_of(one) == "cline"
    for agent in OTHERS:
        assert not CLIENT.sent(from_another(turn(path, head, "hi", headers={"User-Agent": agent})))


def test_the_user_agent_of_its_extension_tells():
    """With any system prompt."""
    assert CLIENT.sent(turn(APIS[0], "Be kind.", "hi", headers={"User-Agent": "Cline/3.40.0"}))
    assert not CLIENT.sent(turn(APIS[0], "Be kind.", "hi"))


@each_api
@pytest.mark.parametrize("dates", DATES)
def test_the_first_date_stays_and_the_new_one_is_told_once(path, dates):
    """As each country writes it; nothing else of the request changes."""
    system = HEADS[0] + ENV + RULES_OF_THE_USER
    first, later = (partial(turn, path, system.format(date)) for date in dates)
    assert_told_once(RULES, first, later, f"Today's date is now {dates[1]}.")


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
