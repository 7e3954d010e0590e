"""The file: whose it is, and what becomes of a damaged one (file.txt)."""

import os
import stat

from cacheproxy.totals.file import open_file
from tests import transcript

from .builders import keep, store_in


def test_what_becomes_of_it(tmp_path):
    transcript.holds("file.txt", globals() | {"folder": tmp_path})


def kept(folder, *records, umask=0o022):
    """Open it, keep these, and return who may what with the files that are there then."""
    before = os.umask(umask)
    try:
        store = store_in(folder)
        keep(store, *records)
    finally:
        os.umask(before)
    found = {path.name: mode(path) for path in sorted(folder.iterdir())}
    store.connection.close()
    return {"": mode(folder), **found}


def mode(path):
    return f"{stat.S_IMODE(path.stat().st_mode):o}"


def opened(folder, data):
    """What is said of a file that holds this, and which file has it then."""
    folder.mkdir(exist_ok=True)
    (folder / "totals.db").write_bytes(data)
    connection, note = open_file(folder)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    connection.close()
    again, nothing = open_file(folder)
    again.close()
    assert nothing is None
    every = folder.glob("totals-damaged-*.db")
    aside = [path for path in every if counted_out(path.read_bytes()) == counted_out(data)]
    return note.replace(str(aside[0]), "ASIDE").replace(str(folder), "FOLDER"), version


def counted_out(data):
    """A file without SQLite's count of changes: opening it is one."""
    return data[:24] + data[28:92] + data[96:]
