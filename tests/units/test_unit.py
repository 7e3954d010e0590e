"""Files of our own and others', and commands that fail."""

from __future__ import annotations

import pytest

from cacheproxy.units.unit import MARK, Command, UnitError, UnitFile, run_all


def test_a_file_is_for_its_owner_alone(tmp_path):
    """It may hold a token. Folders are made; what was there is replaced."""
    file = UnitFile(tmp_path / "a/b/c", MARK.encode())
    file.write()
    file.write()
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in file.path.parent.iterdir()] == ["c"]


def test_whose_file_it_is(tmp_path):
    """Ours has the mark; a file that is not there is nobody's."""
    file = UnitFile(tmp_path / "x", b"")
    assert not file.is_foreign()
    file.path.write_text(f"# {MARK}\n")
    assert not file.is_foreign()
    file.path.write_text("[Unit]\n")
    assert file.is_foreign()


def test_what_cannot_be_written(tmp_path):
    """Is said in one line."""
    (tmp_path / "a").write_text("")
    with pytest.raises(UnitError, match=r"cannot write .*/a/x: (Not a directory|File exists)"):
        UnitFile(tmp_path / "a/x", b"").write()


@pytest.mark.slow
def test_commands_run_in_order_until_one_fails(tmp_path):
    """Those that may fail do not count."""
    marks = [tmp_path / name for name in "abc"]
    touch = [Command(("touch", str(mark))) for mark in marks]
    with pytest.raises(UnitError, match=r"^false failed \(exit code 1\)"):
        run_all(
            (touch[0], Command(("false",), may_fail=True), touch[1], Command(("false",)), touch[2])
        )
    assert [mark.exists() for mark in marks] == [True, True, False]
    with pytest.raises(UnitError, match="cannot run nosuch-command: No such file"):
        run_all((Command(("nosuch-command",)),))
