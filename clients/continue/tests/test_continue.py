"""Continue's sessions; what it pins: tests/test_client_pins.py."""

from functools import partial

import cacheproxy_continue
from cacheproxy_continue import cacheproxy_session

from cacheproxy.testing import APIS, assert_untouched, conversation, rules_of

RULES = rules_of(cacheproxy_continue)
SDK = {"User-Agent": "ls/JS 5.23.2"}


HEAD = "You are an agent in the Continue CLI. Given the user's prompt, answer.\n\nNotes:\n1. Be.\n"
ENV = (
    "<env>\nWorking directory: /home/me/project\nIs directory a git repo: true\n"
    "Platform: linux\nToday's date: {}\n</env>\n\nAs you answer, you can use:\n\n"
)
GIT = (
    '<context name="gitStatus">This is the git status at the start of the conversation. It is.\n\n'
    "{}\n</context>\n"
)


FIRST, LATER = "2026-11-21", "2026-11-22"
CLEAN, CHANGED = "Working tree clean", "M a<b.py\n?? new.txt"

turn = partial(conversation, headers=SDK)


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
