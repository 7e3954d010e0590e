"""``cacheproxy capture``: list and export, one line for what is wrong."""

from __future__ import annotations

import json
import stat
import time
from functools import partial
from pathlib import Path

import pytest

from cacheproxy.core.conversation.session import Session
from cacheproxy.record.files import read
from cacheproxy.record.jsonl import to_line
from tests.cli.invoking import invoke
from tests.record.recorded import recorded

SECRET = "kanarienvogel"
NOON = time.mktime((2026, 11, 21, 12, 0, 0, 0, 0, -1))


def record(turn, **changes):
    fields = {
        "method": "POST",
        "target": f"/v1/messages?key={SECRET}",
        "headers": ((b"x-api-key", SECRET.encode()), (b"user-agent", b"claude-cli/2.1")),
        "body": b'{"model": "m"}' * 100,
        "wall": NOON + 60 * turn,
        "session": Session("claude", "3f9a-1111"),
        "turn": turn,
        "status": 200,
        "response_body": b"{}" * 50,
    }
    return recorded(**fields | changes)


@pytest.fixture
def folder(tmp_path):
    """Two sessions on two days."""
    found = tmp_path / "captures"
    found.mkdir()
    one = [record(1), record(0), record(2, side=True), record(2)]
    two = [record(1, session=Session("cline", "b01c"), wall=NOON + 86_400)]
    (found / "claude-3f9a-1111-2026-11-21.jsonl").write_bytes(b"".join(map(to_line, one)))
    (found / "cline-b01c-2026-11-22.jsonl").write_bytes(b"".join(map(to_line, two)))
    return found


run = partial(invoke, "capture")


def test_list_shows_the_sessions(folder):
    """Their turns, requests, size and time, in the order in which they began."""
    done = run("list", folder)
    assert done.exit_code == 0, done.output
    head, first, second, _, total = done.output.splitlines()
    assert head.split() == ["client", "session", "turns", "reqs", "size", "when"]
    assert first.split() == [
        *("claude", "3f9a-1111", "2", "4", "6.0", "KB"),
        *("21", "Nov", "12:00,", "2", "min"),
    ]
    assert second.split()[:6] == ["cline", "b01c", "1", "1", "1.5", "KB"]
    assert total == "2 sessions, 5 requests, 7.5 KB of bodies"
    assert all(len(line) <= 96 for line in done.output.splitlines())


def test_one_session_is_no_plural(folder):
    """Nor is one request."""
    total = run("list", folder / "cline-b01c-2026-11-22.jsonl").output.splitlines()[-1]
    assert total == "1 session, 1 request, 1.5 KB of bodies"


def test_list_as_json(folder):
    """Everything, for a program."""
    done = run("list", folder, "--json")
    assert json.loads(done.stdout) == {
        "sessions": [
            {
                "client": "claude",
                "session": "3f9a-1111",
                "turns": 2,
                "requests": 4,
                "bytes": 6000,
                "first": NOON,
                "last": NOON + 120,
            },
            {
                "client": "cline",
                "session": "b01c",
                "turns": 1,
                "requests": 1,
                "bytes": 1500,
                "first": NOON + 86_400,
                "last": NOON + 86_400,
            },
        ],
        "problems": [],
    }


def test_list_of_what_others_recorded(captures):
    """Sessions are named as the proxy would; times are those of the recorder."""
    done = run("list", captures / "claude-twosessions.jsonl", captures / "pi-completions.jsonl")
    assert done.exit_code == 0, done.output
    rows = [line.split() for line in done.output.splitlines()[1:-2]]
    assert sum(row[0] == "claude" for row in rows) >= 2
    assert all(row[-1] == "s" and "Nov" not in row for row in rows)


def test_names_cannot_move_the_cursor(tmp_path):
    """A capture may come from anywhere."""
    odd = record(1, session=Session("\x1b[2Jx", "a\x1b[31m\nb\ud83d"))
    (tmp_path / "x.jsonl").write_bytes(to_line(odd))
    done = run("list", tmp_path)
    assert done.exit_code == 0, done.output
    assert "\x1b" not in done.output
    assert len(done.output.splitlines()) == 4


def test_export(folder, tmp_path):
    """One private HAR of all of them, which reads back the same; no credential is in it."""
    out = tmp_path / "out.har"
    done = run("export", folder, "--har", out)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == f"5 exchanges, {out.stat().st_size:,} bytes: {out}\n"
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert SECRET not in out.read_text()
    assert read(out) == read(folder)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["captures", "out.har"]


def test_export_as_json(folder, tmp_path):
    """The summary, for a program."""
    out = tmp_path / "out.har"
    done = run("export", folder, "--har", out, "--json")
    assert json.loads(done.stdout) == {
        "exchanges": 5,
        "har": str(out),
        "bytes": out.stat().st_size,
        "problems": [],
    }


def test_export_to_stdout(folder):
    """Nothing but the HAR; the summary goes to stderr."""
    done = run("export", folder, "--har", "-")
    assert len(json.loads(done.stdout)["log"]["entries"]) == 5
    assert done.stderr.startswith("5 exchanges")


def test_bad_lines_are_named_and_the_good_are_used(folder, tmp_path):
    """One line each on stderr, and exit code 2."""
    out = tmp_path / "out.har"
    cut = folder / "claude-3f9a-1111-2026-11-21.jsonl"
    cut.write_bytes(cut.read_bytes()[:-9])
    (tmp_path / "notes.txt").write_text(SECRET)
    for arguments in (("export", "--har", out), ("list",)):
        done = run(*arguments, folder, tmp_path / "notes.txt", tmp_path / "none.jsonl")
        assert done.exit_code == 2
        assert done.stderr.splitlines() == [
            f"cacheproxy: {cut}:4: cut off: not a complete JSON value",
            f"cacheproxy: {tmp_path / 'notes.txt'}: neither JSON lines of exchanges nor a HAR",
            f"cacheproxy: {tmp_path / 'none.jsonl'}: cannot be read: No such file or directory",
        ]
    assert len(read(out)[0]) == 4
    done = run("list", folder, tmp_path / "notes.txt", "--json")
    assert done.exit_code == 2
    assert [problem["line"] for problem in json.loads(done.stdout)["problems"]] == [4, None]


def test_nothing_to_export(tmp_path):
    """Leaves the file that is there alone."""
    out = tmp_path / "out.har"
    out.write_text("mine")
    (tmp_path / "empty.har").write_text('{"log": {"entries": []}}')
    done = run("export", tmp_path / "empty.har", "--har", out)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "cacheproxy: it holds no exchange\n"
    assert out.read_text() == "mine"


def test_an_output_that_cannot_be_written(folder, tmp_path):
    """Is one line, and leaves nothing behind."""
    out = tmp_path / "none" / "out.har"
    done = run("export", folder, "--har", out)
    assert done.exit_code == 2
    assert done.stderr == f"cacheproxy: cannot write {out}: No such file or directory\n"
    done = run("export", folder, "--har", tmp_path)
    assert done.exit_code == 2
    assert done.stderr == f"cacheproxy: cannot write {tmp_path}: Is a directory\n"


def test_an_output_that_is_no_file(folder):
    """A device is written to, not replaced."""
    assert run("export", folder, "--har", "/dev/null").exit_code == 0
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
