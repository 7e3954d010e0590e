"""The pages that tell of the last exchanges, and what is done about a break, in a real proxy."""

from __future__ import annotations

import json
import tomllib

import pytest

from cacheproxy.core.diagnose.report import TurnReport
from tests.observe.exchanges import body
from tests.proxy.harness import Proxy, eventually
from tests.web.asking import get, turn
from tests.web.breaking import DATED, WORDS, Breaking, date, numbers

pytestmark = pytest.mark.slow

JSON = b"Content-Type: application/json"
SECRET = "kanarienvogel"
KEY = "sk-ant-api03-AbCdEfGh1234567890ijklmnop"


def post(proxy, page, *fields, said=None):
    payload = json.dumps(said or {}).encode()
    answer = get(
        proxy, f"/_cacheproxy/{page}", *(fields or (JSON,)), method=b"POST", payload=payload
    )
    return answer.status, json.loads(answer.body)


def opened(proxy, number, *fields):
    return json.loads(get(proxy, f"/_cacheproxy/break/{number}", *fields).body)


def words(lines, *, changed=None):
    return "\n".join(
        "".join(text for text, is_new in line["parts"] if changed in (None, is_new))
        for line in lines
    )


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    found = Breaking(tmp_path_factory.mktemp("breaks"))
    yield found
    found.close()


@pytest.fixture
def breaking(running):
    """The running proxy, with its file empty again and read, and prompts hidden."""
    running.begin_anew()
    post(running.proxy, "show-prompts", said={"show": False})
    return running


@pytest.fixture
def showing(breaking):
    assert post(breaking.proxy, "show-prompts", said={"show": True}) == (200, {"show": True})
    return breaking


class TestOpened:
    def test_what_was_and_what_is_once_the_user_allows_it(self, breaking):
        text = f"be kind\nToday's date: {{}}\n{KEY}\n{SECRET} {WORDS}"
        number = breaking.broke(date(20), date(21), text)
        found = opened(breaking.proxy, number)
        assert (found["texts"], found["show_prompts"]["allowed"]) == (None, True)
        assert "show_prompts = true" in found["hidden"]
        assert SECRET not in json.dumps(found)
        assert post(breaking.proxy, "show-prompts", said={"show": True})[0] == 200
        found = opened(breaking.proxy, number)
        was, now = found["texts"]["was"], found["texts"]["now"]
        assert words(was).startswith(f"be kind\nToday's date: {date(20)}\n")
        assert words(now, changed=True).strip() == date(21)
        assert [line["n"] for line in was] == [1, 2, 3, 4, 5]
        assert SECRET in words(was)
        assert "AbCdEfGh" not in json.dumps(found)
        assert found["show_prompts"]["on"]
        assert SECRET not in breaking.proxy.output

    def test_what_is_known_of_it(self, breaking):
        number = breaking.broke(date(20), date(21), DATED)
        found = opened(breaking.proxy, "last")
        assert (found["number"], found["turn"], found["reason"]) == (number, 2, "system_changed")
        assert (found["path"], found["kind"], found["byte"]) == ("/system", "date", 23)
        assert found["phrase"] == "The system text changed (date)"
        assert found["frequency"] == "changes once a day"
        assert found["proof"].endswith(".")
        assert found["prompt"] == 2003
        assert 1800 < found["lost"] <= 2001
        cure = found["cure"]
        assert (cure["applicable"], cure["applied"], cure["why_not"]) == (True, False, None)
        assert tomllib.loads(cure["toml"])["rule"][0]["name"] == cure["rule"]
        assert cure["file"] == str(breaking.file)
        assert cure["command"].startswith(f"cacheproxy diagnose {number} --propose --apply --proxy")
        assert "it saves ≈" in cure["tried"]

    def test_where_no_rule_could_be_right_it_says_why(self, breaking):
        number = breaking.broke("red", "blue", f"be kind\nI like {{}} things\n{WORDS}")
        found = opened(breaking.proxy, number)
        assert (found["cure"], found["no_cure"][:9]) == (None, "No rule: ")

    def test_of_an_earlier_break_there_are_a_few_words_left(self, showing):
        number = showing.broke(date(20), date(21), DATED)
        session = showing.last(lambda one: one["number"] == number)["session"]
        showing.say(
            session, "hello", "hi", "and?", "x", "y", system=DATED.format(date(22)), reused=3
        )
        showing.last(lambda one: one["session"] == session and one["turn"] == 3)
        texts = opened(showing.proxy, number)["texts"]
        assert words(texts["now"], changed=True).strip() == date(21)
        assert texts["now"][0]["n"] is None

    def test_what_did_not_break_is_none(self, breaking):
        session = f"s{next(numbers)}"
        breaking.say(session, "hello", system="be kind")
        number = breaking.last(lambda one: one["session"] == session)["number"]
        assert opened(breaking.proxy, number)["error"].endswith("did not lose the cache.")
        assert get(breaking.proxy, "/_cacheproxy/break/999999").status == 404

    def test_markup_is_but_text(self, showing):
        number = showing.broke("<b>1</b>", "<script>2", f"be kind\n{{}}\n{WORDS}")
        assert "<script>2" in words(opened(showing.proxy, number)["texts"]["now"])


class TestApplied:
    def test_the_rule_is_in_use_at_once_and_taken_out_again(self, breaking):
        """The file's own bytes are back: line ends, comments and all."""
        before = "# mine\r\nverbose = false\r\n"
        breaking.file.write_bytes(before.encode())
        breaking.read_again()
        number = breaking.broke(date(20), date(21), DATED)
        name = opened(breaking.proxy, number)["cure"]["rule"]
        status, said = post(breaking.proxy, f"cure/{number}/apply")
        line = f"Written to {breaking.file}. In use now, without a restart: {name}."
        assert (status, said["said"]) == (200, line)
        assert breaking.file.read_bytes().startswith(before.encode())
        session = breaking.last(lambda one: one["number"] == number)["session"]
        system = DATED.format(date(22))
        sent = breaking.say(session, "hello", "hi", "and?", "so", "x", system=system, reused=1990)
        assert date(21) in sent["system"]
        cure = opened(breaking.proxy, number)["cure"]
        assert (cure["applied"], cure["applicable"]) == (True, False)
        assert post(breaking.proxy, f"cure/{number}/apply")[0] == 409
        status, said = post(breaking.proxy, f"cure/{number}/undo")
        assert (status, f"{name}. The next request goes without." in said["said"]) == (200, True)
        assert breaking.file.read_bytes() == before.encode()
        sent = breaking.say(session, *"abcdefg", system=system, reused=1990)
        assert date(22) in sent["system"]
        assert opened(breaking.proxy, number)["cure"]["applied"] is False
        status, said = post(breaking.proxy, f"cure/{number}/undo")
        assert (status, said["error"][:19]) == (404, "No rule was applied")

    def test_what_was_edited_since_stays(self, breaking):
        """Only the rule goes; where it was edited itself, nothing does."""
        number = breaking.broke(date(20), date(21), DATED)
        post(breaking.proxy, f"cure/{number}/apply")
        text = breaking.file.read_text()
        breaking.file.write_text(f"# a comment\n{text}\n# the end\n")
        assert post(breaking.proxy, f"cure/{number}/undo")[0] == 200
        assert breaking.file.read_text() == "# a comment\n\n# the end\n"
        assert post(breaking.proxy, f"cure/{number}/apply")[0] == 200
        edited = breaking.file.read_text().replace("pin = true", "pin = true\ndefault = false")
        breaking.file.write_text(edited)
        status, said = post(breaking.proxy, f"cure/{number}/undo")
        assert (status, "edited since" in said["error"]) == (409, True)
        assert breaking.file.read_text() == edited

    def test_what_the_user_has_taken_out_can_be_applied_again(self, breaking):
        number = breaking.broke(date(20), date(21), DATED)
        assert post(breaking.proxy, f"cure/{number}/apply")[0] == 200
        breaking.file.write_text("# mine\n")
        breaking.read_again()
        cure = opened(breaking.proxy, number)["cure"]
        assert (cure["applied"], cure["applicable"]) == (False, True)
        assert post(breaking.proxy, f"cure/{number}/apply")[0] == 200
        assert post(breaking.proxy, f"cure/{number}/undo")[0] == 200
        assert breaking.file.read_text() == "# mine\n"

    def test_what_cannot_be_done_is_one_sentence_and_changes_nothing(self, breaking):
        number = breaking.broke(date(20), date(21), DATED)
        name = opened(breaking.proxy, number)["cure"]["rule"]
        for text, said in (
            (f"disable = ['{name}']\n", "switched off"),
            ("port = \n", "is not valid TOML"),
            (f"[[rule]]\nname = '{name}'\nwhere = 'user'\npattern = 'x'\npin = true\n", "another"),
        ):
            breaking.file.write_text("")
            breaking.read_again()
            breaking.file.write_text(text)
            status, answer = post(breaking.proxy, f"cure/{number}/apply")
            assert (status, said in str(answer)) == (409, True), (text, answer)
            assert breaking.file.read_text() == text
        assert opened(breaking.proxy, number)["cure"]["applied"] is False
        assert post(breaking.proxy, "cure/999999/apply")[0] == 404


class TestWhoMay:
    """A page of another site, a form, another machine behind a proxy: none of them."""

    @pytest.mark.parametrize(
        ("fields", "status"),
        [
            ((JSON, b"Origin: https://example.com"), 403),
            ((JSON, b"Sec-Fetch-Site: cross-site"), 403),
            ((b"Content-Type: text/plain",), 415),
            ((b"Content-Type: application/x-www-form-urlencoded",), 415),
            ((JSON, b"X-Forwarded-For: 10.0.0.1"), 403),
            ((JSON, b"Forwarded: for=10.0.0.1"), 403),
        ],
    )
    def test_others_change_nothing(self, breaking, fields, status):
        number = breaking.broke(date(20), date(21), DATED)
        for page in ("show-prompts", "cure/1/apply", "cure/1/undo"):
            assert post(breaking.proxy, page, *fields, said={"show": True})[0] == status
        assert not opened(breaking.proxy, number)["show_prompts"]["on"]

    def test_others_see_no_text(self, showing):
        number = showing.broke(date(20), date(21), f"{SECRET} {DATED}")
        found = opened(showing.proxy, number, b"X-Forwarded-For: 10.0.0.1")
        assert (found["texts"], found["show_prompts"]["allowed"]) == (None, False)
        assert found["hidden"] == found["show_prompts"]["why_not"]
        assert SECRET in json.dumps(opened(showing.proxy, number))
        for page in (f"break/{number}", f"diagnose/{number}"):
            answer = get(showing.proxy, f"/_cacheproxy/{page}", b"X-Forwarded-For: 10.0.0.1")
            assert (answer.status, SECRET in answer.body.decode()) == (200, False), page
        answer = get(showing.proxy, f"/_cacheproxy/cure/{number}", b"X-Forwarded-For: 10.0.0.1")
        assert (answer.status, SECRET in answer.body.decode()) == (403, False)

    def test_it_is_asked_for_by_post_and_said_as_it_should_be(self, breaking):
        for page in ("show-prompts",):
            assert get(breaking.proxy, f"/_cacheproxy/{page}").status == 405
        for said in ({"show": 1}, {"other": True}, {"show": True, "long": "a" * 1000}):
            assert post(breaking.proxy, "show-prompts", said=said)[0] == 400

    def test_with_the_token_wherever_it_comes_from_and_by_the_settings(self, running, tmp_path):
        """What a user says on the page goes before."""
        environ = {"CACHEPROXY_TOKEN": "abc", "CACHEPROXY_SHOW_PROMPTS": "true"}
        with Proxy(tmp_path, "--upstream", running.upstream.url, **environ) as proxy:
            known = (JSON, b"X-Cacheproxy-Token: abc", b"X-Forwarded-For: 10.0.0.1")
            assert post(proxy, "show-prompts", JSON, said={"show": False})[0] == 401
            for day, reused in ((20, 0), (21, 3)):
                said = body("hello", "hi", "and?", system=DATED.format(date(day)))
                turn(proxy, running.upstream, said, 2003, reused, known[1])
            eventually(lambda: "show_prompts" in opened(proxy, "last", *known[1:]))

            def shown():
                return opened(proxy, "last", *known[1:])["show_prompts"]["on"]

            assert shown()
            assert post(proxy, "show-prompts", *known, said={"show": False})[0] == 200
            assert not shown()


@pytest.fixture(scope="module")
def plain(upstream, tmp_path_factory):
    with Proxy(tmp_path_factory.mktemp("exchanges"), "--upstream", upstream.url) as proxy:
        yield proxy


def page(proxy, target):
    answer = get(proxy, target)
    return answer.status, json.loads(answer.body)


def test_a_break_is_told_of_and_explained(plain, upstream):
    """The list has figures alone; the report quotes what changed, to the user who asks."""
    status, said = page(plain, "/_cacheproxy/diagnose/last")
    assert (status, said["error"]) == (404, "no turn has come through this proxy yet")
    for texts, nonce, prompt, reused in (("a", "1a2b", 2000, 0), ("ab", "9c8d", 2010, 3)):
        said = body(*texts, system=f"nonce {nonce} {SECRET} {'x ' * 3000}")
        turn(plain, upstream, said, prompt, reused, b"X-Session-Id: s1")
    eventually(lambda: len(page(plain, "/_cacheproxy/exchanges")[1]["exchanges"]) == 2)
    status, listed = page(plain, "/_cacheproxy/exchanges")
    found = listed["exchanges"]
    assert status == 200
    assert [one["verdict"] for one in found] == ["cold", "BREAK"]
    assert found[1]["reason"] == "system_changed"
    assert found[1]["usage"] == {"prompt": 2010, "reused": 3, "output": 7}
    assert SECRET not in json.dumps(listed)
    status, said = page(plain, "/_cacheproxy/diagnose/last")
    assert status == 200
    report = TurnReport.from_json(said)
    assert (report.number, report.turn, report.path) == (2, 2, "/system")
    assert "9c8d" in report.excerpts.now
    assert page(plain, "/_cacheproxy/diagnose/1")[0] == 200
    assert SECRET not in plain.output
