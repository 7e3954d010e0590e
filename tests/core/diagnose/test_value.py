"""What a proposed rule keeps: values of many kinds, over three more that nobody has seen."""

import json
import re
from itertools import pairwise

import pytest

from cacheproxy.core.diagnose.propose import propose
from cacheproxy.core.diagnose.volatile import fields
from cacheproxy.core.rules.fold import normalize
from cacheproxy.testing import assert_extends, conversation, request
from tests import transcript

CHAT = "/v1/chat/completions"
REST = "Work carefully and say what you did. " * 60
UUIDS = (
    "0b6e1f0a-1111-4222-8333-abcdefabcdef",
    "aa1f0a2c-2222-4222-8333-abcdefabcdef",
    "10000000-3333-4222-8333-000000000001",
    "ffffffff-4444-4222-8333-fffffffffff2",
    "12345678-1234-4234-8234-123456789012",
)
HASHES = ("3f2a9c1d", "9b11e07a", "00000012", "deadbeef", "12345678")
PINNED = {
    # a line, and its values: the first two are seen, the others come later
    "Scratch directory: /tmp/x-{}": HASHES,
    "Scratch: /tmp/y-{}": ("abz123", "9q8e77", "000000", "zzzzzz", "a1"),
    "Scratchpad: /tmp/claude-0/{}/scratchpad": UUIDS,
    "Working directory: /srv/trees/{}": HASHES,
    "Write your notes to logs/{}.md": ("20261121", "20261122", "20261130", "20261201", "20270101"),
    "Save results in runs/run-{}/": ("9", "10", "11", "99", "100"),
    "The dev server listens on http://localhost:{}.": ("4173", "4181", "80", "3000", "65535"),
    "You are on turn {}": ("17 of 50.", "18 of 50.", "19 of 50.", "50 of 50.", "1 of 60."),
    "You have {} left.": ("33 steps", "32 steps", "10 steps", "9 steps", "1 step"),
    "Budget left: {}": (
        "84,120 tokens (42%)",
        "80,411 tokens (40%)",
        "9,999 tokens (5%)",
        "120 tokens (0%)",
        "1,200,000 tokens (99%)",
    ),
    "Server pid: {}": ("41233", "50871", "7", "99999", "100000"),
    "Branch: main, HEAD {}": HASHES,
    "Git: {}": (
        "main @ 3f2a9c1",
        "feature/login @ 9b11e07",
        "main @ 0000012",
        "(detached) @ deadbee",
        "main @ 1234567",
    ),
    "Current week: {}": ("2026-W47", "2026-W48", "2026-W49", "2026-W53", "2027-W01"),
    "Kalenderwoche: KW {}": ("47", "48", "49", "53", "1"),
    "Figures as of {}.": ("14:05", "14:11", "23:59", "00:00", "9:05"),
    "Prices as of {}.": (
        "2026-11-21 14:05 (Sat)",
        "2026-11-22 09:11 (Sun)",
        "2026-11-23 00:00 (Mon)",
        "2026-12-01 23:59 (Tue)",
        "2027-01-01 1:05 (Fri)",
    ),
    "Uptime: {}": (
        "3 days, 4:05",
        "3 days, 4:11",
        "3 days, 23:59",
        "4 days, 0:00",
        "12 days, 1:01",
    ),
    "TMPDIR=/tmp/tmp.{}": ("Ab3dE9xQ", "Zz9kQ1mm", "00000000", "aaaaaaaa", "Q"),
    # from here on they are this test's own
    "Listening on {}": (
        "127.0.0.1:8123",
        "127.0.0.1:9400",
        "[::1]:80",
        "0.0.0.0:65535",
        "10.0.0.12:8080",
    ),
    "Your IP is {}.": ("10.0.0.17", "10.0.0.9", "10.0.1.200", "192.168.100.100", "::1"),
    "Commit: {}": HASHES,
    "Unread messages: {}": ("3", "11", "0", "100", "1,024"),
    "Retry {}": ("2/5", "3/5", "4/5", "5/5", "1/10"),
    "CPU load is {}": ("0.42", "1.07", "12", "0.5", "100.00"),
    "- tmp file: /tmp/{}/x.log": ("aa01", "bb02", "c", "0000", "zz/9"),
    "Disk free: {}": (
        "12.4 GB of 100 GB",
        "11.9 GB of 100 GB",
        "9 GB of 100 GB",
        "512 MB of 100 GB",
        "1.1 TB of 2 TB",
    ),
    "pull request #{} is open": ("812", "815", "999", "1000", "7"),
    "You are worker {}": ("3 of 8.", "4 of 8.", "5 of 8.", "8 of 8.", "10 of 12."),
    '{{"pid": {}}}': (
        '4123, "cwd": "/srv/a1b2c3"',
        '5120, "cwd": "/srv/d4e5f6"',
        '1, "cwd": "/"',
        '99999, "cwd": "/srv/0"',
        '100000, "cwd": "C:/x"',
    ),
    "<port>{}</port>": ("3000", "3001", "80", "443", "65535"),
    "Checkpoint dir is ckpt/{} now.": ("000120", "000240", "000360", "1000000", "last"),
    "version {}": (
        "2.1.114 (build 9af3c1)",
        "2.1.115 (build 00d2e4)",
        "2.2.0 (build 123456)",
        "3.0 (build abcdef)",
        "10.11.12 (build 1)",
    ),
    "Ticket id: {}": HASHES,
    "Session id: {}. Pass it to save_state.": HASHES,
    "Request-Id: {} (quote it in every bug report)": UUIDS,
    "Your inbox is agent-{}@example.org": ("17", "18", "9", "100", "1"),
    "Container: {}": HASHES,
    "Elapsed: {}": ("59 s", "61 s", "2 min 5 s", "1 h", "100 h 3 min"),
    "Queue position is {}": ("12", "9", "1", "100", "0"),
    "Model temperature = {}": ("0.7", "0.65", "1", "0", "0.125"),
}
CONSTANT = {
    "request-id: {}": HASHES,
    "X-Request-Id: {}": UUIDS,
    "trace_id={}": ("4bf92f3577b34da6", "00f067aa0ba902b7", "a" * 16, "1" * 16, "deadbeefdeadbeef"),
    "Nonce: {}": ("deadbeef01", "0123abcdef", "0000000000", "ffffffffff", "Zz19Aa0000"),
    "version=2.1.114; cch={};": ("a2f61", "09bce", "12345", "abcde", "0000f"),
    "stamp={}": ("01265", "35882", "99999", "00000", "5a5a5"),
}


def turns(line, values, before="You are a helper.\n", after=f"\n\n{REST}", tools=None):
    """A conversation in which the user says one thing more each time."""
    made = []
    for number, value in enumerate(values):
        said = [f"thing {count}" for count in range(2 * number + 1)]
        one = conversation(CHAT, before + line.format(value) + after, *said)
        made.append(request({**one.json, "tools": tools}, CHAT) if tools else one)
    return made


def proposed(made):
    steps = list(pairwise(made))
    found = propose(fields(steps), steps, made)
    return [one.rule for one in found if one.rule], [one.why for one in found if not one.rule]


def sent_of(made, rules):
    before = None
    for turn in made:
        sent = normalize(turn, rules, before).request
        if before is not None:
            assert_extends(before, sent)
        yield sent
        before = sent


@pytest.mark.parametrize("line", PINNED)
def test_what_the_model_may_act_on_stays_and_each_new_value_is_told_whole(line):
    """The first is never replaced by another; three that nobody has seen save as much."""
    values = PINNED[line]
    made = turns(line, values)
    (rule,), refused = proposed(made[:2])
    assert all("takes it away, too" in why or "no pattern" in why for why in refused), refused
    assert (rule.pin, rule.replacement) == (True, None)
    first = made[0].json["messages"][0]
    for number, sent in enumerate(sent_of(made, [rule])):
        assert sent.json["messages"][0] == first
        if number:
            told = sent.json["messages"][-1]["content"]
            assert values[number].rstrip(".") in told
            word = re.split(r"[=<>]", line.format(values[number]).strip(".}>"))[-1].split()[-1]
            assert word.removesuffix("/port") in told, "of a path, or a URL, all"


@pytest.mark.parametrize("line", CONSTANT)
def test_an_id_that_nothing_refers_to_is_constant(line):
    made = turns(line, CONSTANT[line])
    (rule,), _ = proposed(made[:2])
    assert not rule.pin
    assert set(rule.replacement) <= set("0-")
    texts = {json.dumps(sent.json["messages"][0]) for sent in sent_of(made, [rule])}
    assert len(texts) == 1
    assert rule.replacement in texts.pop()


@pytest.mark.parametrize(
    ("reference", "tools"),
    [
        ("Name the request id in each commit.", None),
        ("Start with 3f2a9c1d.", None),
        ("Quote it when you report a bug.", None),
        ("", [{"type": "function", "function": {"name": "f", "parameters": {"request_id": {}}}}]),
    ],
)
def test_an_id_that_something_refers_to_is_pinned(reference, tools):
    made = turns("request-id: {}", HASHES, after=f"\n{reference}\n{REST}", tools=tools)
    (rule,), _ = proposed(made[:2])
    assert rule.pin


@pytest.mark.parametrize("line", [*PINNED, *CONSTANT])
def test_in_a_long_line_too_no_value_is_false(line):
    """Either there is no rule, or the first value stays and the new one is told."""
    values = {**PINNED, **CONSTANT}[line]
    made = turns(line, values, before=REST, after=f". {REST}")
    rules, _ = proposed(made[:2])
    if not rules:
        return
    *_, last = sent_of(made[:2], rules)
    told = last.json["messages"][-1]["content"]
    if all(one.pin for one in rules):
        assert last.json["messages"][0] == made[0].json["messages"][0]
        assert values[1].rstrip(".") in told
    else:
        assert line in CONSTANT


def test_all_that_is_said():
    transcript.holds("value.txt", globals())
