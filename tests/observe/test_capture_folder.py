"""The folder of captures: private, capped, and nobody else's."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.config import ConfigError
from cacheproxy.core.conversation.session import Session
from cacheproxy.observe.capture import Capture, CaptureFolder, file_name
from cacheproxy.record.files import read
from tests.observe.capturing import DAY, NOON, Reactor, capture, exchange, large, mode, names

BOB = 65_534


def test_nobody_else_may_read_it(tmp_path):
    """Whatever the umask, and whatever a file's mode was before."""
    folder = tmp_path / "new" / "captures"
    before = os.umask(0)
    try:
        capture(folder, exchange())
    finally:
        os.umask(before)
    (file,) = folder.iterdir()
    assert (mode(folder.parent), mode(folder), mode(file)) == (0o700, 0o700, 0o600)
    file.chmod(0o666)
    capture(folder, exchange())
    assert mode(file) == 0o600
    assert len(read(file)[0]) == 2


@pytest.mark.parametrize(
    ("session", "name"),
    [
        (Session("claude", "3f9a-1111"), "claude-3f9a-1111-D.jsonl"),
        (Session("claude", "ab:cd"), r"claude-ab_cd\.\w{8}-D.jsonl"),
        (Session("c/../../x", "../../etc/passwd"), r"c_.._.._x-.._.._etc_passwd\.\w{8}-D.jsonl"),
        (Session("..", ".."), r"client-..-D.jsonl"),
        (Session("", ""), r"client-none\.\w{8}-D.jsonl"),
        (Session("ü\ud83d", "x\ud83d\n"), r"_-x_\.\w{8}-D.jsonl"),
        (Session("k" * 500, "k" * 500), rf"{'k' * 20}-{'k' * 64}\.\w{{8}}-D.jsonl"),
    ],
)
def test_names_of_files(session, name):
    """Hold nothing but letters, digits, dots, dashes and underscores."""
    found = file_name(session, "D")
    assert re.fullmatch(name, found)
    assert "/" not in found
    assert not found.startswith(".")


@given(st.text(st.characters(), max_size=100), st.text(st.characters(), max_size=100))
def test_two_sessions_never_share_a_file(one, other):
    if one and other and one != other:
        first = file_name(Session("c", one), "2026-11-21")
        assert first != file_name(Session("c", other), "2026-11-21")
        assert re.fullmatch(r"c-[A-Za-z0-9._-]{1,73}-2026-11-21\.jsonl", first)


def test_links_are_not_followed(tmp_path, logged):
    """Of a planted file; nor is a pipe written to."""
    folder = tmp_path / "captures"
    folder.mkdir(0o700)
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (folder / "claude-3f9a-1111-2026-11-21.jsonl").symlink_to(victim)
    os.mkfifo(folder / "cline-b01c-2026-11-21.jsonl")
    observer = capture(folder, exchange(), exchange(session=Session("cline", "b01c")))
    assert (observer.written, observer.dropped) == (0, 2)
    assert victim.read_text() == "mine"
    assert "Too many levels of symbolic links" in logged[0]


def test_a_folder_that_is_exchanged_stays_the_same(tmp_path):
    """It is used through a descriptor, not through its path."""
    folder = tmp_path / "captures"
    observer = Capture(Reactor(), CaptureFolder(folder))
    folder.rename(tmp_path / "moved")
    (tmp_path / "elsewhere").mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    observer.cacheproxy_exchange_finished([exchange()])
    observer.close(30)
    assert len(names(tmp_path / "moved")) == 1
    assert names(tmp_path / "elsewhere") == []


def test_a_folder_that_others_can_enter_is_refused(tmp_path):
    """With the command that mends it; it may be a home, so it is not changed unasked."""
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o755)
    with pytest.raises(ConfigError, match=f"chmod 700 {folder}$"):
        CaptureFolder(folder)
    assert mode(folder) == 0o755


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(tmp_path):
    folder = tmp_path / "theirs"
    folder.mkdir(0o700)
    os.chown(folder, BOB, BOB)
    with pytest.raises(ConfigError, match="belongs to another user"):
        CaptureFolder(folder)


def test_a_folder_that_is_none(tmp_path):
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/none")):
        with pytest.raises(ConfigError, match="name another folder"):
            CaptureFolder(path)
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(ConfigError, match="is a symbolic link: name the folder itself"):
        CaptureFolder(tmp_path / "link")


def test_what_is_too_old_goes(tmp_path):
    folder = tmp_path / "captures"
    walls = [NOON - 40 * DAY, NOON - 31 * DAY, NOON - 30 * DAY, NOON - DAY, NOON]
    capture(folder, *(exchange(wall=wall) for wall in walls), caps={"days": 30})
    assert names(folder) == [
        "claude-3f9a-1111-2026-10-22.jsonl",
        "claude-3f9a-1111-2026-11-20.jsonl",
        "claude-3f9a-1111-2026-11-21.jsonl",
    ]


def test_what_is_too_much_goes(tmp_path):
    """The oldest first, and never more than the cap is there."""
    folder = tmp_path / "captures"
    for day in range(20):
        capture(folder, large(9_000, wall=NOON + day * DAY), caps={"size": 50_000})
        assert sum(file.stat().st_size for file in folder.iterdir()) <= 50_000
    assert len(names(folder)) == 5
    assert names(folder)[-1] == "claude-3f9a-1111-2026-12-10.jsonl"
    many = [large(9_000, session=Session("a", str(i)), wall=NOON) for i in range(30)]
    capture(folder, *many, caps={"size": 50_000})
    assert sum(file.stat().st_size for file in folder.iterdir()) <= 50_000


def test_only_our_own_files_go(tmp_path):
    """What the user put there stays, however old and large, and does not count."""
    folder = tmp_path / "captures"
    folder.mkdir(0o700)
    theirs = {
        "notes-2020-01-01.txt": "x" * 90_000,
        "claude-3f9a-1111.jsonl": "x" * 90_000,
        "my-notes-2020-01-01.jsonl": '{"note": "' + "x" * 90_000 + '"}\n',
    }
    for name, text in theirs.items():
        (folder / name).write_text(text)
    (folder / "a-folder-2020-01-01.jsonl").mkdir()
    (folder / "a-link-2020-01-01.jsonl").symlink_to("notes-2020-01-01.txt")
    capture(folder, exchange(), large(31_300, wall=NOON + DAY), caps={"size": 32_000, "days": 1})
    assert names(folder) == sorted(
        {*theirs, "a-folder-2020-01-01.jsonl", "a-link-2020-01-01.jsonl"}
        | {"claude-3f9a-1111-2026-11-22.jsonl"}
    )


def test_half_a_line_spoils_only_itself(tmp_path):
    folder = tmp_path / "captures"
    capture(folder, exchange(), exchange())
    (file,) = folder.iterdir()
    file.write_bytes(file.read_bytes()[:-40])
    capture(folder, exchange(turn=7))
    records, (problem,) = read(file)
    assert [record.turn for record in records] == [1, 7]
    assert str(problem) == f"{file}:2: cut off: not a complete JSON value"
