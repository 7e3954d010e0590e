"""``cacheproxy capture``: list and export, one line for what is wrong (capture.txt)."""

import json
import re
import stat
import time
from pathlib import Path

import pytest

from cacheproxy.core.conversation.session import Session
from cacheproxy.record.files import read
from cacheproxy.record.jsonl import to_line
from tests import golden
from tests.cli.invoking import commands, invoke, transcript
from tests.record.recorded import recorded

FILE = Path(__file__).with_name("capture.txt")
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
    """Two sessions on two days; one whose last line is cut off; other files."""
    found = tmp_path / "captures"
    found.mkdir()
    one = [record(1), record(0), record(2, side=True), record(2)]
    two = [record(1, session=Session("cline", "b01c"), wall=NOON + 86_400)]
    (found / "claude-3f9a-1111-2026-11-21.jsonl").write_bytes(b"".join(map(to_line, one)))
    (found / "cline-b01c-2026-11-22.jsonl").write_bytes(b"".join(map(to_line, two)))
    (tmp_path / "cut.jsonl").write_bytes(b"".join(map(to_line, one))[:-9])
    (tmp_path / "notes.txt").write_text(SECRET)
    (tmp_path / "empty.har").write_text('{"log": {"entries": []}}')
    odd = record(1, session=Session("\x1b[2Jx", "a\x1b[31m\nb\ud83d"))  # no cursor is moved
    (tmp_path / "odd.jsonl").write_bytes(to_line(odd))
    return found


@pytest.mark.parametrize("name", golden.sections(FILE))
def test_what_it_says(folder, tmp_path, name):
    """The good lines of bad files are used; a file that is there is left alone."""
    said = transcript(*commands(FILE, name), folder=tmp_path)
    for seconds in (0, 120, 86_400):
        said = said.replace(str(NOON + seconds), f"NOON + {seconds}")
    said = re.sub(r"[\d,]{5,}(?= bytes)|(?<=\"bytes\": )\d{5}", "N", said)  # of a HAR
    golden.agrees(FILE, name, said)
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    assert (tmp_path / "notes.txt").read_text() == SECRET


def test_export_is_private_and_reads_back_the_same(folder, tmp_path):
    """No credential is in it, and on standard output nothing but it."""
    out = tmp_path / "out.har"
    done = invoke("capture", "export", folder, "--har", "-")
    assert len(json.loads(done.stdout)["log"]["entries"]) == 5
    invoke("capture", "export", folder, "--har", out)
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert SECRET not in out.read_text()
    assert read(out) == read(folder)


def test_list_of_what_others_recorded(captures):
    """Sessions are named as the proxy would; times are those of the recorder."""
    files = [captures / f"{name}.jsonl" for name in ("claude-twosessions", "pi-completions")]
    done = invoke("capture", "list", *files)
    assert done.exit_code == 0, done.output
    rows = [line.split() for line in done.output.splitlines()[1:-2]]
    assert sum(row[0] == "claude" for row in rows) >= 2
    assert all(row[-1] == "s" and "Nov" not in row for row in rows)
