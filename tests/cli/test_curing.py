"""``cacheproxy diagnose --propose`` against a running proxy: proven there, applied, in use."""

from __future__ import annotations

import json
import os
import shlex
import tomllib
from functools import partial

import pytest

from cacheproxy.cli.diagnose import cure_lines
from cacheproxy.core.diagnose.cure import Cure, Found, Won
from tests.cli.invoking import invoke, one_line
from tests.web.asking import get
from tests.web.breaking import DATED, WORDS, Breaking, date, numbers

SECRET = "kanarienvogel"
SAID = ("hello", "hi", "and?", "so", "well")
run = partial(invoke, "diagnose")


class Proposing(Breaking):
    """One that is asked for rules."""

    def propose(self, number, *words, **environ):
        return run(number, "--propose", "--proxy", self.proxy.url, *words, **environ)


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    found = Proposing(tmp_path_factory.mktemp("curing"))
    yield found
    found.close()


@pytest.fixture
def breaking(running):
    """The running proxy, with its file empty again and read."""
    running.begin_anew()
    return running


@pytest.mark.slow
class TestApplied:
    def test_the_next_turn_grows_only(self, breaking):
        """The command is that of the log; the first date stays, the new one is told."""
        text = f"be kind\nToday's date: {{}}\n{WORDS}"
        mark = breaking.proxy.mark()
        number = breaking.broke(date(20), date(21), text)
        line = breaking.proxy.wait_for("system_changed: ", since=mark)
        words = shlex.split(line[line.index("cacheproxy diagnose") :])
        assert words[1:] == [
            "diagnose", str(number), "--propose", "--proxy", breaking.proxy.url
        ]  # fmt: skip
        result = invoke(*words[1:], "--apply")
        assert result.exit_code == 0, result.output
        assert f"Written to {breaking.file}" in result.stdout
        (table,) = tomllib.loads(breaking.file.read_text())["rule"]
        assert f"In use now, without a restart: {table['name']}." in result.stdout
        assert (table["pin"], table["client"]) == (True, "somebody")
        assert "default" not in table
        session = breaking.last(lambda one: one["number"] == number)["session"]
        sent = breaking.say(session, *SAID, system=text.format(date(22)), reused=1990)
        assert date(21) in sent["system"]
        assert date(22) not in sent["system"]
        assert sent["messages"][-1]["content"] == (
            f"well\n\n<system-reminder>\nToday's date is now {date(22)}.\n</system-reminder>"
        )
        after = breaking.last(lambda one: one["session"] == session and one["turn"] == 3)
        assert after["verdict"] == "ok"
        again = breaking.propose(number, "--apply")
        assert f"rule {table['name']} is on" in again.stdout
        assert one_line(again, 1) == "cacheproxy: nothing to apply"

    def test_an_id_becomes_a_constant(self, breaking):
        """Whoever made up an id needs none of them."""
        ids = [f"775b2410-8917-4fad-af9d-00000000000{digit}" for digit in range(3)]
        text = f"be kind\nRun id: {{}}\n{WORDS}"
        number = breaking.broke(ids[0], ids[1], text)
        assert breaking.propose(number, "--apply").exit_code == 0
        session = breaking.last(lambda one: one["number"] == number)["session"]
        sent = breaking.say(session, *SAID, system=text.format(ids[2]))
        assert "Run id: 00000000-0000-0000-0000-000000000000" in sent["system"]

    @pytest.mark.parametrize("before", ["", "verbose = true\n"])
    def test_a_rule_that_is_there_but_off_is_switched_on(self, breaking, before):
        """The file's own tables come after it."""
        text = before + (
            "[[rule]]\nname = 'mine'\nwhere = 'system'\npattern = 'now: (?P<volatile>.*)'\n"
            "replacement = '0'\ndefault = false\n"
        )
        breaking.file.write_text(text)
        breaking.read_again()
        number = breaking.broke(date(20), date(21), f"be kind\nnow: {{}}\n{WORDS}")
        assert "rule mine is installed but off" in breaking.propose(number).stdout
        assert "In use now, without a restart: mine." in breaking.propose(number, "--apply").stdout
        assert breaking.file.read_text() == f'enable = ["mine"]\n{text}'
        breaking.file.write_text(f"enable = []\n{text}")
        breaking.read_again()
        assert 'add "mine" to enable in' in one_line(breaking.propose(number, "--apply"))

    def test_two_conversations_each_have_their_own(self, breaking):
        """Whichever broke last."""
        first = breaking.broke(date(20), date(21), f"First date: {{}}\n{WORDS}")
        second = breaking.broke(date(20), date(21), f"Second date: {{}}\n{WORDS}")
        assert "First date: " in breaking.propose(first).stdout
        assert "Second date: " in breaking.propose(second).stdout
        assert breaking.propose("last").stdout == breaking.propose(second).stdout

    def test_another_file_is_written_and_it_is_said_who_reads_it(self, breaking, tmp_path):
        number = breaking.broke(date(20), date(21), DATED)
        other = tmp_path / "other.toml"
        text = breaking.propose(number, "--apply", "-c", other).stdout
        assert f"Made {other}. The running proxy reads another file, {breaking.file}" in text
        assert f"--config {other}" in text
        assert tomllib.loads(other.read_text())["rule"]
        assert breaking.file.read_text() == ""

    def test_what_is_in_the_file_already_is_only_read(self, breaking):
        number = breaking.broke(date(20), date(21), DATED)
        shown = breaking.propose(number).stdout
        breaking.file.write_text(shown)
        assert breaking.propose(number, "--apply").exit_code == 0
        assert breaking.file.read_text() == shown


@pytest.mark.slow
class TestNothingIsDone:
    """What cannot be done is one line, and the file is as it was."""

    def test_the_proxy_could_not_use_the_file(self, breaking):
        text, said = "enable = ['nobody']\n", "no rule is called nobody"
        number = breaking.broke(date(20), date(21), DATED)
        breaking.file.write_text(text)
        result = breaking.propose(number, "--apply")
        assert said in one_line(result)
        assert breaking.file.read_text() == text

    def test_the_file_is_none(self, breaking):
        """A folder, or /dev/null, stays what it is."""
        number = breaking.broke(date(20), date(21), DATED)
        for name in (breaking.file.parent, os.devnull):
            result = breaking.propose(number, "--apply", "-c", name)
            assert result.exit_code == 2
            assert len(result.stderr.splitlines()) == 1
        assert not os.path.isfile(os.devnull)  # noqa: PTH113 (what it is, not a path)

    def test_the_rule_is_switched_off_where_the_proxy_was_started(self, breaking):
        """A proxy that does not take it up is no reason to keep it in the file."""
        number = breaking.broke(date(20), date(21), DATED)
        (table,) = tomllib.loads(breaking.propose(number).stdout)["rule"]
        breaking.file.write_text(f"disable = ['{table['name']}']\n")
        assert "switched off where the proxy was started" in one_line(
            breaking.propose(number, "--apply")
        )
        assert "[[rule]]" not in breaking.file.read_text()

    @pytest.mark.parametrize(
        ("was", "now", "said"),
        [
            ("red", "blue", "no pattern can describe this change"),
            ("", "\nToday's date: 2026-11-21\n", "No rule for"),
        ],
    )
    def test_no_rule_could_be_right(self, breaking, was, now, said):
        number = breaking.broke(was, now, f"be kind\nI like {{}} things\n{WORDS}")
        result = breaking.propose(number, "--apply")
        assert said in result.stdout
        assert one_line(result, 1) == "cacheproxy: nothing to apply"
        assert breaking.file.read_text() == ""

    def test_what_the_user_wrote_is_left_alone(self, breaking):
        session = f"s{next(numbers)}"
        for day, texts in ((20, ()), (21, ("hi", "and?"))):
            first = f"Today's date: {date(day)} {WORDS}"
            breaking.say(session, first, *texts, system="be kind", reused=3 if texts else 0)
        number = breaking.last(lambda one: one["session"] == session and one["turn"] == 2)["number"]
        result = breaking.propose(number, "--apply")
        assert "the user wrote this text" in result.stdout
        assert tomllib.loads(result.stdout) == {}

    def test_nothing_broke(self, breaking):
        session = f"s{next(numbers)}"
        breaking.say(session, "hello", system="be kind")
        number = breaking.last(lambda one: one["session"] == session)["number"]
        assert f"request {number} did not break the cache" in one_line(breaking.propose(number))
        assert "no such exchange" in one_line(breaking.propose("999999"))

    def test_its_conversation_broke_again(self, breaking):
        """Only the last break's texts are kept: it is that one that is cured."""
        number = breaking.broke(date(20), date(21), DATED)
        session = breaking.last(lambda one: one["number"] == number)["session"]
        breaking.say(session, *SAID, system=DATED.format(date(22)), reused=3)
        newer = breaking.last(lambda one: one["session"] == session and one["turn"] == 3)["number"]
        found = json.loads(breaking.propose(number, "--json").stdout)
        assert found["number"] == newer
        assert found["found"][0]["toml"]

    def test_what_the_server_had_dropped_meanwhile_does_not_take_its_place(self, breaking):
        """The requests agree then, and no rule could help."""
        number = breaking.broke(date(20), date(21), DATED)
        session = breaking.last(lambda one: one["number"] == number)["session"]
        breaking.say(session, *SAID, system=DATED.format(date(21)), reused=0)
        dropped = breaking.last(lambda one: one["session"] == session and one["turn"] == 3)
        assert dropped["verdict"] == "BREAK"
        assert json.loads(breaking.propose(number, "--json").stdout)["number"] == number
        assert "in memory; look in a capture" in one_line(breaking.propose(dropped["number"]))

    def test_a_credential_near_the_change_goes_nowhere(self, breaking):
        key = "sk-ant-api03-AbCdEfGh1234567890ijklmnop"
        number = breaking.broke(date(20), date(21), f"be kind\nkey {key} {{}}\n{WORDS}")
        result = breaking.propose(number, "--json")
        assert "AbCdEfGh" not in result.stdout
        assert "a credential stands on the same line" in result.stdout


@pytest.mark.slow
def test_nothing_of_the_prompt_goes_out_but_its_line(breaking):
    """The page gives the rule and the figures; it is worked out where the texts are."""
    text = f"{SECRET}\nToday's date: {{}}\n{SECRET} {WORDS}"
    number = breaking.broke(date(20), date(21), text)
    page = get(breaking.proxy, f"/_cacheproxy/cure/{number}").body.decode()
    assert SECRET not in page
    (found,) = Cure.from_json(json.loads(page)).found
    assert found.won.kept > 10 * found.won.shared
    assert SECRET not in breaking.proxy.output


class TestText:
    """What is printed is TOML, whatever was found."""

    def test_of_each_kind(self):
        cure = Cure(
            7,
            found=(
                Found("/system", "date: ", "date", "a", "[[rule]]\n", Won(2000, 20, 1980, 9)),
                Found("/system", "id", "uuid", rules=("b",), on=("b",)),
                Found("/system", "id", "uuid", rules=("c",)),
                Found("/tools", "", "added", why="it has no shape"),
            ),
        )
        text = "\n".join(
            cure_lines(
                cure, "Switch it on, without a restart: cacheproxy diagnose 7 --propose --apply"
            )
        )
        assert text == (
            '# system "date:" (date): without this rule 1.0% of the prompt was unchanged, with it '
            "99.0%: it saves ≈1,960 tokens. Proven on 9 requests.\n"
            "[[rule]]\n"
            '# system "id" (uuid): rule b is on and makes it constant from now on.\n'
            '# system "id" (uuid): rule c is installed but off.\n'
            "# No rule for tools (added): it has no shape.\n"
            "# Switch it on, without a restart: cacheproxy diagnose 7 --propose --apply"
        )

    def test_of_a_server_whose_requests_are_not_edited(self):
        found = Found("/system", "", "date", "a", "[[rule]]\n")
        lines = list(cure_lines(Cure(7, edits=False, found=(found,)), "x"))
        assert "--edit-remote" in lines[-1]

    def test_of_nothing(self):
        assert "Nothing to propose" in "".join(cure_lines(Cure(7), "x"))


def test_it_needs_propose_and_a_proxy():
    assert "--apply needs --propose" in one_line(run("--apply"))
    assert "start it" in one_line(run("--propose", "--proxy", "http://127.0.0.1:9"))
