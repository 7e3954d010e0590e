"""docs/reliability.md names tests, options and limits: all of them as they are in the code."""

import re
from pathlib import Path

from cacheproxy.config import options
from cacheproxy.core.http1 import response_reader as http1
from cacheproxy.daemon import process_parts
from cacheproxy.daemon.reloading import NEED_A_RESTART
from cacheproxy.proxy.downstream import channel, incoming, limits, waiting
from cacheproxy.proxy.downstream.limits import Limits
from cacheproxy.proxy.exchange import delivery, normalizing, relay, workers
from cacheproxy.totals import database, file, store, totals

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/reliability.md").read_text()
FLOWING = " ".join(PAGE.split())
"""The page without its line breaks."""
KIB, MIB = 1 << 10, 1 << 20
NAMED = sorted(set(re.findall(r"`(tests/[^`]+)`", PAGE)))
IDLE, INTERVAL, COUNT = (value for _, value in limits._KEEPALIVE)
DEAD = IDLE + INTERVAL * COUNT
FIXED = {
    "headers of a request": f"{Limits().headers:,}: 431",
    "speed of a request's body, on the whole": f"{waiting._SLOWEST_BODY:,} bytes a second: 408",
    "head, and trailers, of a response": f"{http1.LONGEST_HEAD // KIB} KiB: 502",
    "interim responses": f"{http1._MOST_INTERIM}: 502",
    "requests sent behind one that runs": (
        f"{incoming._READ_AHEAD // KIB} KiB are read ahead, the rest waits"
    ),
    "a refused client that goes on sending": f"closed after {channel._LINGER_SECONDS:g} seconds",
    "a client that does not read the end of a broken answer": (
        f"closed after {relay._FLUSH_SECONDS:g} seconds"
    ),
    "a client that does not read the end of a whole answer": (
        f"closed after {channel._UNREAD_SECONDS:g} seconds"
    ),
    "a client whose machine is gone": f"closed after {DEAD} seconds",
    "a function of a plugin": (
        f"{normalizing._SECONDS:g} second, and {normalizing._SECONDS_PER_MIB:g} more for each MiB "
        "of body: left out for that request"
    ),
}
SAID = [
    f"bodies of more than {normalizing.THREAD_ABOVE // KIB} KiB are looked at in a thread",
    f"at most {relay._MOST_RETAINED // MIB} MiB of it",
    f"More than {http1._MOST_INTERIM} of them",
    f"written every {database._GATHER + process_parts._SOON:.1g} seconds",
    f"the last {store.MOST} requests from memory. Up to {database._MOST_WAITING:,} requests wait",
    f"at most {totals._FASTEST} times as fast as time passes",
]


def test_every_test_file_it_names_exists():
    assert NAMED
    for name in NAMED:
        assert re.search(r"^(async )?def test_", (ROOT / name).read_text(), re.MULTILINE), name


def test_every_promise_names_its_tests():
    *promises, last = PAGE.split("\n## ")[1:]
    assert last.startswith("What is not promised")
    for promise in promises:
        assert "`tests/" in promise.partition("\nTested in ")[2], promise.partition("\n")[0]


def test_options_have_the_defaults_of_the_table():
    """Those with a default beside them; and every option that is named exists."""
    table = {option.flag: option for option in options()}
    rows = dict(re.findall(r"^\| `--([a-z-]+)` \| `(.*?)` \|", PAGE, re.MULTILINE))
    named = set(re.findall(r"`--([a-z-]+)", PAGE))
    assert named <= set(table), f"docs/reliability.md: no such options: {named - set(table)}"
    assert rows == {flag: str(table[flag].default) for flag in rows}
    limits = {flag for flag in table if flag.startswith("max-") or "timeout" in flag}
    assert limits <= set(rows), f"docs/reliability.md: add to the table {limits - set(rows)}"


def test_limits_that_cannot_be_set_are_the_codes():
    """Each row of the table says the number that the code has; there is no row without a check."""
    table = PAGE.partition("| what | limit |\n| --- | --- |\n")[2].partition("\n\n")[0]
    assert sorted(table.splitlines()) == sorted(f"| {what} | {it} |" for what, it in FIXED.items())


def test_numbers_in_sentences_are_the_codes():
    missing = [sentence for sentence in SAID if sentence not in FLOWING]
    assert not missing, f"docs/reliability.md must say what the code does: {missing}"


def test_words_for_numbers_are_right():
    assert workers.THREADS == 3
    assert "too slow three times in a row" in FLOWING
    assert file._MOST_ASIDE == 3
    assert "the last three of each stay" in FLOWING
    assert relay._MOST_RETAINED == delivery.MOST_WHOLE


def test_what_needs_a_restart_is_named():
    """All of it, and nothing else."""
    (listed,) = re.findall(r"changes nothing, and says so\. ([^.]*) need a restart\.", FLOWING)
    assert set(re.findall(r"`(\w+)`", listed)) == set(NEED_A_RESTART), (
        "docs/reliability.md lists what NEED_A_RESTART (cacheproxy/daemon/reloading.py) has"
    )


def test_the_readme_leads_here():
    section = (
        (ROOT / "README.md").read_text().partition("\n## What holds\n")[2].partition("\n## ")[0]
    )
    assert "(docs/reliability.md)" in section
