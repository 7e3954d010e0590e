"""A captured exchange as one line."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import Break, Judgement, Reason, TokenCount, Verdict
from cacheproxy.core.diff.kind import ChangeKind
from cacheproxy.core.document.edits import REMOVE, Edit
from cacheproxy.core.kinds.prefill import Progress
from cacheproxy.core.kinds.profile import Profile
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.fold import RuleReport
from cacheproxy.record.exchange import Exchange, Outcome
from cacheproxy.record.jsonl import CapturedError, from_line, to_line
from tests.record.recorded import recorded

SECRET = "kanarienvogel"
GOOD = {"method": "POST", "path": "/v1/messages", "headers": {"user-agent": "x/1"}, "body": "{}"}
GOOD_LINE = json.dumps(GOOD)


def exchange(**changes):
    """A turn that broke, with everything that is known of one."""
    received = Request(
        "POST",
        f"/v1/messages?beta=true&key={SECRET}",
        ((b"User-Agent", b"claude-cli/2.1"), (b"X-Api-Key", SECRET.encode())),
        b'{"system": "cch=1;"}',
    )
    fields = {
        "received": received,
        "sent": received.with_text('{"system": "cch=0;"}'),
        "reports": (
            RuleReport("billing", (Edit("/system", "cch=0;", "a nonce"), Edit("/x", REMOVE, ""))),
            RuleReport("broken", error="ValueError"),
        ),
        "session": Session("claude", "3f9a-1111"),
        "turn": 14,
        "upstream": "http://localhost:8080",
        "status": 200,
        "outcome": Outcome.COMPLETE,
        "usage": Usage(18_211, 17_928, 412, 0.5, 12.5),
        "wall": 1_795_000_000.25,
        "first_byte": 0.94,
        "seconds": 13.4,
        "bytes_down": 4000,
        "number": 812,
        "side": True,
        "sent_after": 0.002,
        "head_after": 0.9,
        "response_headers": ((b"Content-Type", b"text/event-stream"), (b"Set-Cookie", b"s")),
        "response_body": b"data: {}\n\n",
        "verdict": Verdict(
            Judgement.BREAK,
            Reason.MESSAGES_CHANGED,
            Break(
                "/messages/0", 9204, TokenCount(2611, "estimated"), ChangeKind.DATE, SECRET, SECRET
            ),
            TokenCount(18_000, "measured"),
            seconds_lost=38.1,
        ),
    }
    return Exchange(**fields | changes)


def applied(rule, paths=(), error=None):
    """What a capture says of a rule: not what it put there."""
    return RuleReport(rule, tuple(Edit(path, "", "") for path in paths), error)


header = st.tuples(st.binary(max_size=20), st.binary(max_size=20))
texts = st.text(st.characters(), max_size=20)  # halves of characters too
floats = st.none() | st.floats(0, 1e6)
counts = st.none() | st.integers(0, 1 << 40)
judged = st.builds(Verdict, st.sampled_from(Judgement))


def anything_recorded(method, target, headers, body, *, sent, sent_target, **fields):
    """An exchange of which anything may be known."""
    if sent is not None:
        sent = Request(method, sent_target or target, headers, sent)
    return recorded(method, target, headers, body, sent=sent, **fields)


anything = st.builds(
    anything_recorded,
    method=texts,
    target=texts,
    headers=st.lists(header, max_size=4).map(tuple),
    body=st.binary(max_size=60) | texts.map(lambda text: text.encode("utf-8", "surrogatepass")),
    wall=st.floats(0, 253_402_300_799),
    sent=st.none() | st.binary(max_size=60),
    sent_target=st.none() | texts,
    reports=st.lists(
        st.builds(applied, texts, st.lists(texts, max_size=2), st.none() | texts),
        max_size=2,
    ).map(tuple),
    number=st.integers(0, 1 << 40),
    session=st.none() | st.builds(Session, texts, texts, st.just(b"")),
    turn=st.integers(0, 999),
    side=st.booleans(),
    upstream=texts,
    status=st.none() | st.integers(100, 599),
    response_headers=st.lists(header, max_size=4).map(tuple),
    response_body=st.none() | st.binary(max_size=60),
    bytes_down=counts,
    outcome=st.none() | st.sampled_from(Outcome),
    error=st.none() | texts,
    usage=st.builds(Usage, counts, counts, counts, floats, floats),
    sent_after=floats,
    head_after=floats,
    first_byte=floats,
    progress=st.none() | st.builds(Progress, st.integers(0, 1 << 40), st.integers(1, 1 << 40)),
    seconds=st.floats(0, 1e6),
    verdict=st.none() | st.just(exchange().verdict) | judged,
    profile=st.none() | st.from_type(Profile),
)


@given(anything)
def test_a_line_says_it_all(captured):
    """Any bytes in bodies and headers, and halves of characters, come back as they were."""
    line = to_line(captured)
    assert from_line(line) == captured
    assert line.decode()
    assert line.index(b"\n") == len(line) - 1
    assert json.loads(line)["cacheproxy"] == 1


@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 200_000])
@pytest.mark.parametrize("unit", [b"a", "é".encode(), "😀".encode(), b'"', b"\xff", b"\\ud83d"])
def test_long_bodies_are_spelled_piece_by_piece(size, unit):
    """No piece ends within a character."""
    captured = recorded("POST", "/", body=(unit * size)[:size], response_body=unit * size)
    assert from_line(to_line(captured)) == captured
    assert json.loads(to_line(captured))


odd_values = st.recursive(
    st.none()
    | st.booleans()
    | st.sampled_from([0, -1, 1.5, 1 << 70, -(1 << 70), 1e999, float("nan"), 10**400])
    | st.sampled_from(["", "x", "\ud83d"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=4,
)


@given(anything, st.data())
def test_odd_values_are_read_or_refused(captured, data):
    """Whatever stands in a line's members; and what was read can be written and read again."""
    fields = json.loads(to_line(captured))
    keys = st.sampled_from([*fields, "t", "sent_from", "x", "\ud83d"])
    for key in data.draw(st.lists(keys, max_size=3)):
        fields[key] = data.draw(odd_values)
    for holder in fields.values():  # usage and verdict
        if isinstance(holder, dict) and holder and data.draw(st.booleans()):
            holder[data.draw(st.sampled_from(sorted(holder)))] = data.draw(odd_values)
    try:
        found = from_line(json.dumps(fields))
    except CapturedError:
        return
    assert repr(from_line(to_line(found))) == repr(found)  # NaN is not equal to itself
