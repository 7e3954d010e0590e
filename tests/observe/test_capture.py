"""Capture: raw exchanges to a private folder, off the reactor thread."""

import base64
import gzip
import json
import sys
import threading
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from cacheproxy.core.conversation.session import Session
from cacheproxy.core.kinds.profile import Profile
from cacheproxy.core.prompt.request import Request
from cacheproxy.observe.capture import Capture, CaptureFolder
from cacheproxy.record.exchange import Outcome
from cacheproxy.record.files import read
from cacheproxy.record.jsonl import from_line, to_line
from tests.disk import files_of_at_most
from tests.observe.capturing import DAY, NOON, Reactor, capture, exchange, large, names
from tests.proxy.harness import eventually

SECRET = "kanarienvogel"


def test_one_file_per_session_and_day(tmp_path):
    folder = tmp_path / "captures"
    done = [
        exchange(turn=1),
        exchange(turn=2),
        exchange(session=Session("cline", "b01c")),
        exchange(turn=3, wall=NOON + DAY),
        exchange(session=None, turn=0),
        exchange(turn=4, sent=None),
    ]
    observer = capture(folder, *done)
    assert (observer.written, observer.dropped) == (6, 0)
    assert names(folder) == [
        "claude-3f9a-1111-2026-11-21.jsonl",
        "claude-3f9a-1111-2026-11-22.jsonl",
        "claude-no-session-2026-11-21.jsonl",
        "cline-b01c-2026-11-21.jsonl",
    ]
    records, problems = read(folder / "claude-3f9a-1111-2026-11-21.jsonl")
    assert problems == []
    assert records == [from_line(to_line(done[index])) for index in (0, 1, 5)]


def test_a_profile_is_written_where_a_file_begins_and_where_it_has_changed(tmp_path):
    """Not with each turn; in the file of every session and day; by each run of the proxy."""
    one, other = Profile(page="/tokenize"), Profile(page="/apply-template")
    turns = [one, one, other, other, other]
    days = [NOON] * 4 + [NOON + DAY]
    sessions = [Session("claude", "a"), Session("claude", "b")]
    given = [
        exchange(session=session, profile=profile, wall=wall)
        for profile, wall in zip(turns, days, strict=True)
        for session in sessions
    ]
    capture(tmp_path / "captures", *given)
    capture(tmp_path / "captures", *(exchange(session=each, profile=other) for each in sessions))
    for session in "ab":
        today, tomorrow = sorted((tmp_path / "captures").glob(f"claude-{session}-*"))
        written = ["profile" in json.loads(line) for line in today.read_bytes().splitlines()]
        assert written == [True, False, True, False, True]
        assert [each.profile for each in read(today)[0]] == [one, one, other, other, other]
        assert [each.profile for each in read(tomorrow)[0]] == [other]


def test_a_file_that_begins_anew_after_old_ones_went_says_the_profile_again(tmp_path):
    profile = Profile(page="/tokenize")
    old = large(2000, session=Session("cline", "x"), wall=NOON - DAY, profile=profile)
    new = large(2000, profile=profile)
    again = large(20, session=Session("cline", "x"), wall=NOON - DAY, profile=profile)
    capture(tmp_path / "captures", old, new, again, caps={"size": 4200})
    found, _ = read(tmp_path / "captures")
    assert [(each.session.id, each.profile) for each in found] == [
        ("3f9a-1111", profile),
        ("x", profile),
    ]


def test_credentials_are_never_written(tmp_path):
    """Not in headers, not in URLs, in no encoding, whichever exchange it is."""
    fields = ("Authorization", "X-Api-Key", "Cookie", "Proxy-Authorization", "X-Other")
    headers = tuple((name.encode(), f"Bearer {SECRET}".encode()) for name in fields)
    received = Request("POST", f"/v1/messages?key={SECRET}&{SECRET}", headers, b"\xff")
    target = f"http://me:{SECRET}@h/x;{SECRET}?alt=sse;key={SECRET}"
    hidden = exchange(
        received=received,
        sent=replace(received, body=b"{}"),
        response_headers=((b"Set-Cookie", SECRET.encode()), (b"Location", SECRET.encode())),
        upstream=f"http://me:{SECRET}@localhost:8080",
    )
    folder = tmp_path / "captures"
    capture(
        folder,
        hidden,
        replace(hidden, session=None, sent=None, outcome=Outcome.REFUSED),
        replace(hidden, received=replace(received, target=target)),
    )
    written = b"".join(file.read_bytes() for file in folder.iterdir())
    assert written.count(b"redacted") > 3 * len(fields)
    for start in range(3):  # a text's base64 depends on where it starts
        coded = base64.b64encode(b" " * start + SECRET.encode())[4:-4]
        assert coded not in written
    assert SECRET.encode() not in written


KEY, COOKIE = "sk-ant-api03-7f3a9bcc41d0", "sid-7f3a9bcc41d0"


@pytest.mark.parametrize("coding", ["", "gzip", "deflate"])
def test_credentials_in_bodies_are_not_written(tmp_path, coding):
    """A tool printed the environment, a server repeats the cookie: compressed or not."""
    said = json.dumps({"messages": [{"role": "user", "content": f"A=1\n{KEY} and {COOKIE}"}]})
    compress = {"": bytes, "gzip": gzip.compress, "deflate": zlib.compress}[coding]
    coded = ((b"Content-Encoding", coding.encode()),) if coding else ()
    body = compress(said.encode())
    received = Request("POST", "/v1/messages", ((b"Cookie", f"s={COOKIE}".encode()), *coded), body)
    given = exchange(
        received=received,
        sent=replace(received, body=compress(said.encode() + b"  ")),
        response_headers=coded,
        response_body=compress(said.encode() * 2),
    )
    folder = tmp_path / "captures"
    capture(folder, given, replace(given, sent=received))
    records, problems = read(folder)
    assert not problems
    hidden = said.replace(KEY, "sk-redacted-redacted-reda").replace(COOKIE, "redacted-redacte")
    for record, sent in zip(records, (hidden + "  ", hidden), strict=True):
        assert record.received.body == hidden.encode()
        assert record.sent.body == sent.encode()
        assert record.response_body == hidden.encode() * 2
        assert record.received.header("content-encoding") is None
        assert record.response_headers == ()


@pytest.mark.parametrize("coding", ["gzip", "br"])
def test_bodies_without_credentials_are_written_as_they_came(tmp_path, coding):
    coded = ((b"Content-Encoding", coding.encode()),)
    body = gzip.compress(b'{"messages": []}')
    given = exchange(response_headers=coded, response_body=body)
    folder = tmp_path / "captures"
    capture(folder, given)
    ((record,), _) = read(folder)
    assert record.response_body == body
    assert record.response_headers == coded


def test_a_slow_disk_costs_captures_and_nothing_else(tmp_path, logged):
    """What waits is bounded in bytes; it is told of once, and counted at the end."""
    folder = tmp_path / "captures"
    done = large(1_000_000)
    observer = Capture(Reactor(), CaptureFolder(folder), size=3_000_000)
    for _ in range(100):
        observer.cacheproxy_exchange_finished([done])
    observer.close(30)
    assert observer.dropped > 0
    assert observer.written >= 2
    assert observer.written + observer.dropped == 100
    assert len(read(folder)[0]) == observer.written
    slow, total = logged
    assert "the disk is too slow. Exchanges are not written" in slow
    assert total == f"capture: {observer.dropped:,} exchanges were not written to it in all"


def test_the_number_that_waits_is_bounded(tmp_path):
    observer = capture(tmp_path / "captures", *[exchange()] * 500, most=3)
    assert observer.dropped > 0
    assert observer.written + observer.dropped == 500


@pytest.mark.parametrize(
    ("bounds", "why"),
    [
        ({"size": 8_000}, "larger than all that may wait"),
        ({"caps": {"size": 5_000}}, "one exchange is larger than the limit for all captures"),
    ],
)
def test_an_exchange_that_is_too_large(tmp_path, logged, bounds, why):
    """Is dropped with the true reason, drives nothing else out, and the next is captured."""
    observer = capture(tmp_path / "captures", exchange(), large(9_000), exchange(), **bounds)
    assert (observer.written, observer.dropped) == (2, 1)
    assert len(read(tmp_path / "captures")[0]) == 2
    assert why in logged[0]


def test_a_full_disk_costs_captures_and_nothing_else(tmp_path, logged):
    """Nothing half written stays; it is told of once, and again when it is over."""
    folder = tmp_path / "captures"
    observer = Capture(Reactor(), CaptureFolder(folder))

    def finished(one):
        before = observer.written + observer.dropped
        observer.cacheproxy_exchange_finished([one])
        eventually(lambda: observer.written + observer.dropped > before)

    with files_of_at_most(50_000):
        finished(exchange(turn=1))
        for _ in range(9):
            finished(large(60_000, wall=NOON + 1))
        finished(exchange(turn=2, wall=NOON + 2))
    finished(large(60_000, turn=3, wall=NOON + 90))
    observer.close()
    assert logged == [
        (
            f"capture to {folder}: File too large. "
            "Exchanges are not written to it; the requests themselves go on"
        ),
        "the capture works again; 9 exchanges were not written",
        "capture: 9 exchanges were not written to it in all",
    ]
    records, problems = read(folder)
    assert ([record.turn for record in records], problems) == ([1, 2, 3], [])


def test_a_folder_that_cannot_be_written(tmp_path, logged):
    folder = tmp_path / "captures"
    observer = Capture(Reactor(), CaptureFolder(folder))
    folder.rmdir()
    for _ in range(3):
        observer.cacheproxy_exchange_finished([exchange()])
    observer.close(30)
    assert (observer.written, observer.dropped) == (0, 3)
    assert "No such file or directory. Exchanges are not written" in logged[0]
    assert len(logged) == 2


def test_one_exchange_that_cannot_be_spelled(tmp_path, logged):
    """Costs itself alone; the log says nothing of it."""
    odd = exchange(error={SECRET})
    observer = capture(tmp_path / "captures", odd, exchange(wall=float("nan")), exchange())
    assert (observer.written, observer.dropped) == (1, 2)
    assert "an exchange cannot be written as JSON (TypeError)" in logged[0]
    assert SECRET not in "".join(logged)


def test_closing_waits_no_longer_than_it_is_told(tmp_path):
    observer = Capture(Reactor(), CaptureFolder(tmp_path / "c"), size=1 << 30)
    done = large(3_000_000)
    for _ in range(60):
        observer.cacheproxy_exchange_finished([done])
    observer.close(0.05)
    assert observer.dropped > 40
    observer.close()
    name = "cacheproxy-capture"
    eventually(lambda: all(thread.name != name for thread in threading.enumerate()))


def test_nothing_is_left_open(tmp_path):
    """No descriptor, no thread; and after closing nothing is taken."""
    capture(tmp_path / "warm", exchange())
    before = (len(list(Path("/proc/self/fd").iterdir())), threading.active_count())
    for number in range(5):
        capture(tmp_path / str(number), exchange())
        idle = Capture(Reactor(), CaptureFolder(tmp_path / f"{number}x"))
        idle.close()
        idle.close()
        idle.cacheproxy_exchange_finished([exchange()])
        assert (idle.written, idle.dropped) == (0, 0)
    assert (len(list(Path("/proc/self/fd").iterdir())), threading.active_count()) == before


def test_the_thread_starts_with_the_first_exchange(tmp_path):
    """The daemon forks before it, and a thread does not survive that."""
    before = threading.active_count()
    observer = Capture(Reactor(), CaptureFolder(tmp_path / "c"))
    assert threading.active_count() == before
    observer.cacheproxy_exchange_finished([exchange()])
    assert threading.active_count() == before + 1
    observer.close(30)


def test_the_reactor_thread_only_hands_over(tmp_path):
    """Its own steps do not grow with the bodies; spelling and writing are another thread's."""
    observer = Capture(Reactor(), CaptureFolder(tmp_path / "c"), size=1 << 30)

    def steps(done):
        entered = []
        sys.setprofile(lambda *step: entered.append(step[1]))
        try:
            observer.cacheproxy_exchange_finished([done])
        finally:
            sys.setprofile(None)
        return len(entered)

    # The large one first: either may find something that waits, and take the steps for that.
    turns = [(steps(large(2_000_000)), steps(large(1_000))) for _ in range(5)]
    observer.close(60)
    assert (observer.dropped, observer.written) == (0, 10)
    assert min(much for much, _ in turns) < 1.2 * min(little for _, little in turns)


def test_what_waits_does_without_its_parsed_json(tmp_path):
    """It would be ten times the size that is counted."""
    observer = Capture(Reactor(), CaptureFolder(tmp_path / "c"), size=1 << 30)
    done = exchange()
    assert done.received.json is not None
    before = sys.getrefcount(done.received)
    observer.cacheproxy_exchange_finished([large(10_000_000)])
    observer.cacheproxy_exchange_finished([done])
    after = sys.getrefcount(done.received)
    assert after == before
    observer.close(60)
    assert observer.written == 2
