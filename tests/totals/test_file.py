"""The file: whose it is, and what becomes of a damaged one."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest

from cacheproxy.totals import file
from cacheproxy.totals.file import LATEST, TotalsError, open_file

from .builders import keep, record, store_in


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_file_and_folder_are_their_owners_alone(tmp_path):
    """Whatever the umask, and so are the files SQLite makes beside it."""
    folder = tmp_path / "a" / "state"
    before = os.umask(0)
    try:
        store = store_in(folder)
        keep(store, record())
    finally:
        os.umask(before)
    assert mode(folder) == 0o700
    names = {path.name for path in folder.iterdir()}
    assert "totals.db-wal" in names
    assert {mode(folder / name) for name in names} == {0o600}
    store.connection.close()


def test_what_was_kept_is_there_when_it_is_opened_again(tmp_path):
    """A file that others could read, as from a backup, is private again."""
    store = store_in(tmp_path)
    keep(store, record(), record())
    store.connection.close()
    (tmp_path / file.NAME).chmod(0o644)
    again = store_in(tmp_path)
    assert again.connection.execute("SELECT count(*) FROM exchanges").fetchone() == (2,)
    assert again.first == 3
    assert mode(tmp_path / file.NAME) == 0o600
    again.connection.close()


def test_a_folder_that_cannot_be_looked_into_is_one_line(tmp_path):
    """As one that others have closed, or that cannot be made."""
    (tmp_path / "file").write_text("")
    for name, why in (("x" * 256, "File name too long"), ("file/state", "Not a directory")):
        with pytest.raises(TotalsError, match=rf"\Acannot write .*: {why}\Z"):
            open_file(tmp_path / name)


def damaged():
    """What a file holds whose middle is overwritten."""
    with tempfile.TemporaryDirectory() as folder:
        store = store_in(Path(folder))
        keep(store, *(record(number=number, session=f"s{number}") for number in range(500)))
        store.connection.close()
        data = bytearray((Path(folder) / file.NAME).read_bytes())
    data[len(data) // 2 : len(data) // 2 + 8192] = b"\xa5" * 8192
    return bytes(data)


@pytest.mark.parametrize(
    "damage",
    [lambda: b"not a database, but long enough to look at", lambda: b"SQLite format 3\0" * 400,
     damaged],
    ids=["a text", "its head alone", "a page in the middle"],
)  # fmt: skip
def test_a_damaged_file_is_set_aside_and_a_new_one_begun(tmp_path, damage):
    damage = damage()
    (tmp_path / file.NAME).write_bytes(damage)
    connection, note = open_file(tmp_path)
    assert connection.execute("PRAGMA user_version").fetchone() == (LATEST,)
    connection.close()
    (aside,) = tmp_path.glob("totals-damaged-*.db")
    assert aside.read_bytes() == damage
    assert note.count("\n") == 0
    assert str(aside) in note
    assert open_file(tmp_path)[1] is None


def test_only_the_last_few_damaged_files_are_kept(tmp_path):
    for number in range(6):
        (tmp_path / file.NAME).write_bytes(b"%d" % number * 5000)
        open_file(tmp_path)[0].close()
    assert len(list(tmp_path.glob("totals-damaged-*"))) == 3


def test_a_file_of_a_newer_cacheproxy_is_left_alone(tmp_path):
    store = store_in(tmp_path)
    store.connection.execute(f"PRAGMA user_version = {LATEST + 1}")
    store.connection.close()
    with pytest.raises(TotalsError, match=r"newer version \(schema .*--state-dir") as caught:
        open_file(tmp_path)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.glob("totals-damaged-*"))


def test_a_link_is_not_followed(tmp_path):
    """The file's mode is changed: it must be ours."""
    other = tmp_path / "other"
    other.write_text("x")
    folder = tmp_path / "state"
    folder.mkdir()
    (folder / file.NAME).symlink_to(other)
    with pytest.raises(TotalsError):
        open_file(folder)
    assert mode(other) != 0o600
