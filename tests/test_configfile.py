"""Rules in the config file: written, and taken out again."""

import re
import subprocess
import sys

import pytest

from cacheproxy.configfile import AppendError, append

RULE = "[[rule]]\nname = 'stamp'\nwhere = 'system'\npattern = 'x'\nreplacement = '0'\n"
OTHER = RULE.replace("stamp", "other")


@pytest.mark.parametrize("before", [None, "", "# mine\n", "port = 1\r\n", "verbose = true"])
def test_it_is_as_it_was_after_an_undo(tmp_path, before):
    file = tmp_path / "config.toml"
    if before is not None:
        file.write_bytes(before.encode())
    done = append([RULE, OTHER], str(file))
    assert file.read_bytes().decode() == done.after
    assert done.after.endswith(f"{RULE}\n{OTHER}")
    done.undo()
    assert (file.read_bytes().decode() if file.exists() else None) == before


def test_what_others_wrote_since_stays(tmp_path):
    file = tmp_path / "config.toml"
    first = append([RULE], str(file))
    second = append([OTHER], str(file))
    first.undo()
    assert file.read_text() == OTHER or file.read_text() == f"\n{OTHER}"
    second.undo()
    assert not file.read_text().strip()


def test_a_rule_that_was_switched_on_is_off_again(tmp_path):
    file = tmp_path / "config.toml"
    text = f"{RULE}default = false\n"
    file.write_text(text)
    done = append([], str(file), ["stamp"])
    file.write_text(f"{file.read_text()}# more\n")
    done.undo()
    assert file.read_text() == f"{text}# more\n"


def test_what_was_edited_or_is_gone_is_said(tmp_path):
    file = tmp_path / "config.toml"
    done = append([RULE], str(file))
    file.write_text(RULE.replace("'0'", "'1'"))
    with pytest.raises(AppendError, match="was edited since"):
        done.undo()
    file.unlink()
    with pytest.raises(AppendError, match="was edited since"):
        done.undo()


def test_what_was_there_before_is_not_taken_back(tmp_path):
    """A rule that the user has written is the user's, though the proxy could not take it up."""
    file = tmp_path / "config.toml"
    file.write_text(RULE)
    append([RULE], str(file)).take_back()
    assert file.read_text() == RULE
    append([RULE, OTHER], str(file)).take_back()
    assert file.read_text() == RULE


def test_a_key_that_only_the_proxy_has_is_not_needed(tmp_path):
    """It is in the service's environment, not in that of who appends a rule."""
    file = tmp_path / "config.toml"
    file.write_text(
        '[[upstream]]\nname = "a"\nurl = "http://localhost:1"\nkey_env = "NOT_HERE"\n'
        '[alarm]\nwebhook = "http://localhost:2"\nsecret_env = "NOT_HERE"\n'
    )
    append([RULE], str(file))
    assert file.read_text().endswith(f"\n{RULE}")


WRITES = "import sys; from cacheproxy.configfile import append; append([sys.argv[1]], sys.argv[2])"


@pytest.mark.slow
def test_who_writes_at_the_same_time_loses_nothing(tmp_path):
    """Six commands, each of which reads the file and writes it anew; no lock stays behind."""
    file = tmp_path / "config.toml"
    file.write_text("verbose = true\n")
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITES, RULE.replace("stamp", f"stamp-{number}"), str(file)]
        )
        for number in range(6)
    ]
    assert [writer.wait(60) for writer in writers] == [0] * 6
    assert sorted(re.findall(r"stamp-\d", file.read_text())) == [f"stamp-{n}" for n in range(6)]
    assert [each.name for each in tmp_path.iterdir()] == ["config.toml"]


def test_a_rule_that_is_disabled_is_not_enabled_beside(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text('disable = ["stamp"]\n')
    with pytest.raises(AppendError, match="take stamp out of disable"):
        append([], str(file), ["stamp"])
