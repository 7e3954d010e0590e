"""Whose requests are Continue's, and what stays: at the one place where it writes it."""

from __future__ import annotations

from functools import partial

import cacheproxy_continue
import pytest
from cacheproxy_continue import CLIENT, cacheproxy_session

from cacheproxy.testing import (
    APIS,
    assert_told_once,
    assert_untouched,
    conversation,
    from_another,
    rules_of,
)

RULES = rules_of(cacheproxy_continue)
SDK = {"User-Agent": "ls/JS 5.23.2"}
OTHERS = ("claude-cli/2.1.329", "codex_exec/0.169.0", "opencode/1.18.33", "Cline/3.40")
HEAD = "You are an agent in the Continue CLI. Given the user's prompt, answer.\n\nNotes:\n1. Be.\n"
ENV = (
    "<env>\nWorking directory: /home/me/project\nIs directory a git repo: true\n"
    "Platform: linux\nToday's date: {}\n</env>\n\nAs you answer, you can use:\n\n"
)
GIT = (
    '<context name="gitStatus">This is the git status at the start of the conversation. It is.\n\n'
    "{}\n</context>\n"
)
FILE = '\n\n<context name="userRules">\nBe kind.\n</context>'
FIRST, LATER = "2026-11-21", "2026-11-22"
CLEAN, CHANGED = "Working tree clean", "M a<b.py\n?? new.txt"

turn = partial(conversation, headers=SDK)
each_api = pytest.mark.parametrize("path", APIS)


def test_a_sentence_of_its_own_tells():
    """Not a library's user agent; nor where another client names itself."""
    assert CLIENT.sent(turn(APIS[0], HEAD, "hi"))
    assert not CLIENT.sent(turn(APIS[0], "You are kind.", "hi"))
    for agent in OTHERS:
        assert not CLIENT.sent(
            from_another(turn(APIS[0], HEAD, "hi", headers={"User-Agent": agent}))
        )


@each_api
@pytest.mark.parametrize("files", ["", FILE])
def test_the_first_date_stays_and_the_new_one_is_told_once(path, files):
    """Behind what the user says next, and there in all later turns; nothing else changes."""
    first, later = (
        partial(turn, path, HEAD + ENV.format(date) + GIT.format(CLEAN) + files)
        for date in (FIRST, LATER)
    )
    assert_told_once(RULES, first, later, f"Today's date is now {LATER}.")


@each_api
@pytest.mark.parametrize("statuses", [(CLEAN, CHANGED), (CHANGED, CLEAN)])
def test_the_first_git_status_stays_and_the_new_one_is_told_once(path, statuses):
    """As a whole."""
    first, later = (
        partial(turn, path, HEAD + ENV.format(FIRST) + GIT.format(status) + FILE)
        for status in statuses
    )
    assert_told_once(RULES, first, later, f"The git status is now:\n\n{statuses[1]}")


QUOTES = {
    "a file quotes it": HEAD + ENV.format(FIRST) + GIT.format(CLEAN) + ENV + GIT,
    "not in its block": HEAD + "Today's date: {}\n" + GIT,
    "another client's": "You are kind.\n" + ENV + GIT,
    "no more than that": HEAD + "<env>\nToday's date: {}\n</env>\n" + GIT,
}


@each_api
@pytest.mark.parametrize("shape", QUOTES)
def test_any_other_date_is_somebodys_text(path, shape):
    """In system text, of a user, of the model."""
    earlier, later = (
        turn(path, *(text.replace("{}", date) for text in (QUOTES[shape], ENV + GIT, ENV, "x")))
        for date in (FIRST, LATER)
    )
    assert_untouched(RULES, later, earlier)


def test_a_session_is_told_by_folder_and_first_words():
    """Date and status are no part of it, nor is what was said later."""
    texts = HEAD + ENV.format(FIRST), HEAD + ENV.format(LATER) + GIT.format(CHANGED)
    one, same, other = (
        turn(APIS[0], text, *said)
        for text, said in zip((*texts, texts[0]), (["a"], ["a", "b", "c"], ["b"]), strict=True)
    )
    assert cacheproxy_session(one) == cacheproxy_session(same) != cacheproxy_session(other)
    elsewhere = turn(APIS[0], texts[0].replace("/me/", "/you/"), "a")
    assert cacheproxy_session(elsewhere) != cacheproxy_session(one)
    assert cacheproxy_session(turn(APIS[0], "Be kind.", "a")) is None


def test_a_long_status_is_read_but_once():
    """However many files there are, and whatever follows."""
    long = HEAD + ENV.format(LATER) + GIT.format("?? x\n" * 50_000).replace("</context>", "")
    assert_untouched([RULES[1]], turn(APIS[0], long, "b"), turn(APIS[0], long, "a"))
