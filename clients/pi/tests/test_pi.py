"""Oh My Pi, a fork; and what would take hours. What pi pins: tests/test_client_pins.py."""

from functools import partial

import cacheproxy_pi
from cacheproxy_pi import OMP

from cacheproxy.testing import (
    APIS,
    assert_told_once,
    assert_untouched,
    conversation,
    request,
    rules_of,
)

RULES = rules_of(cacheproxy_pi)
SDK = {"User-Agent": "OpenAI/JS 6.26.0"}


HEAD = "You are an expert coding assistant operating inside pi, a coding agent harness. You help."
END = "\nCurrent date: 2026-11-2{}\nCurrent working directory: /home/me/project"


turn = partial(conversation, headers=SDK)


def test_blanks_behind_the_directory_are_read_but_once():
    """Else a file that quotes the line and goes on with blanks takes hours."""
    quote = END.format(1) + " " * 500_000 + "x\n\n"
    earlier, later = (turn(APIS[0], HEAD + quote + END.format(day), "hi") for day in (1, 2))
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
