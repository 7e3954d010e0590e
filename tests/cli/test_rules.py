"""``cacheproxy rules``: what each rule did in a running proxy, and which are not needed."""

from __future__ import annotations

import json
from importlib.metadata import entry_points

import pytest

from cacheproxy.cli.rules import RuleRow, fired, look
from cacheproxy.configfile import AppendError, append
from cacheproxy.sources import default_file
from tests.cli.invoking import invoke, one_line, printed
from tests.proxy.harness import Client, Proxy, Upstream, eventually, free_port, whole

RULE = "[[rule]]\nname = '{}'\nwhere = 'system'\npattern = '{}'\nreplacement = ''\n"
STAMP = RULE.format("stamp", r"now: \d+") + "why = 'a clock'\n"
NEVER = RULE.format("never", "nosuch")
OFF = RULE.format("sleeping", "x") + "why = 'rare'\ndefault = false\nclient = 'codex'\n"


@pytest.fixture(autouse=True)
def file():
    """The user's config file."""
    file = default_file()
    file.parent.mkdir(parents=True)
    file.write_text(STAMP + NEVER + OFF)
    return file


@pytest.fixture
def proxy(file, tmp_path):
    upstream = Upstream()
    upstream.reset(lambda peer, _: peer.send(whole(b"{}")))
    with Proxy(tmp_path, "--config", str(file), "--upstream", upstream.url) as proxy:
        yield proxy
    upstream.close()


def found(*arguments):
    """The config file's rules by name, from ``--json``."""
    rows = json.loads(printed("rules", "--json", *arguments))["rules"]
    return {row["name"]: row for row in rows if row["package"] == "the config file"}


@pytest.mark.slow
def test_what_each_rule_did(proxy):
    """Counted by the running proxy; what it never needed is named, with the evidence."""
    with Client(proxy.address) as client:
        for number in range(3):
            words = [{"role": "user", "content": str(n)} for n in range(2 * number + 1)]
            body = json.dumps({"system": f"now: {number}", "messages": words}).encode()
            fields = (b"User-Agent: claude-cli/2.1", b"Content-Type: application/json")
            client.ask("/v1/messages", body, *fields).answer()
    where = ("--proxy", proxy.url, "--turns", "3")
    eventually(lambda: found(*where)["stamp"]["turns"] == 3)
    rows = found(*where)
    assert (rows["stamp"]["fired"], rows["never"]["fired"]) == (3, 0)
    assert (rows["stamp"]["on"], rows["sleeping"]["on"]) == (True, False)
    assert rows["never"]["retire"] == "the rule is on and changed nothing in the last 3 turns"
    assert rows["stamp"]["retire"] is None
    assert rows["sleeping"]["retire"] is None
    assert found("--proxy", proxy.url)["never"]["retire"] is None  # 50 turns say enough
    text = printed("rules", *where)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "on stamp fired in 3 exchanges; 3 turns" in lines
    assert "off sleeping codex: rare" in lines
    assert (rows["stamp"]["client"], rows["sleeping"]["client"]) == (None, "codex")
    assert f"Counted in the last 3 exchanges that the proxy at {proxy.url} has kept" in text
    assert "changed nothing in the last 3 turns: --disable never" in text


@pytest.mark.slow
def test_what_is_on_is_what_the_proxy_says(proxy, monkeypatch):
    """Not what the settings of this shell would make of it."""
    monkeypatch.setenv("CACHEPROXY_DISABLE", "stamp")
    assert found("--proxy", proxy.url)["stamp"]["on"]


def test_without_a_proxy(monkeypatch):
    """What is installed, and one line that says what is not known."""
    monkeypatch.setenv("CACHEPROXY_DISABLE", "stamp")
    result = invoke("rules", "--proxy", f"http://127.0.0.1:{free_port()}")
    assert "  off  stamp" in result.stdout
    assert "Counted in" not in result.stdout
    assert "not known how often each rule fired: no cacheproxy answers" in one_line(result, 0)


def exchange(client="claude", turn=1, side=False, **rules):
    return {"client": client, "turn": turn, "side": side, "rules": rules}


def test_what_is_counted():
    """Turns, not what comes beside them; a rule once for each exchange it changed."""
    rows = [exchange(a=2), exchange(a=1, b=1), exchange(turn=0), exchange("x")]
    rows.append(exchange(side=True) | {"rules": ["b"]})
    counts = fired(rows, "")
    assert counts.exchanges == {"a": 2, "b": 2}
    assert counts.turns == {"claude": 2, "x": 1}
    assert (counts.turns_of("claude"), counts.turns_of(None), counts.turns_of("y")) == (2, 3, 0)


def serving(pages):
    """An upstream that answers as a proxy does: JSON by target, else 404."""

    def script(peer, received):
        page = pages.get(received.line.split(b" ")[1].decode())
        body = json.dumps(page).encode()
        peer.send(whole(b"{}", status=b"404 Not Found") if page is None else whole(body))

    upstream = Upstream()
    upstream.reset(script)
    return upstream


def test_the_totals_are_read_page_by_page():
    """Back to the first, or as many as are enough."""
    target = "/_cacheproxy/requests"
    rows = [exchange(a=1) for _ in range(3)]
    upstream = serving(
        {
            target: {"requests": rows, "next": 7},
            f"{target}?before=7": {"requests": rows, "next": 4},
            f"{target}?before=4": {"requests": rows[:1], "next": None},
        }
    )
    counts = look(upstream.url, {})
    assert counts.exchanges == {"a": 7}
    assert counts.source == f"the last 7 exchanges that the proxy at {upstream.url} has kept"
    assert look(upstream.url, {}, most=4).exchanges == {"a": 4}
    upstream.close()


def test_a_proxy_without_that_page():
    """Tells what it remembers."""
    upstream = serving({"/_cacheproxy/exchanges": {"exchanges": [exchange(a=1)]}})
    counts = look(upstream.url, {})
    assert counts.exchanges == {"a": 1}
    assert counts.source.endswith("remembers")
    upstream.close()


@pytest.mark.parametrize("page", [[], {}, {"requests": 7}, {"requests": [7]}])
def test_some_other_page(page):
    """Is not counted."""
    upstream = serving({"/_cacheproxy/requests": page})
    with pytest.raises(ValueError, match="no list"):
        look(upstream.url, {})
    upstream.close()


def test_a_rule_that_is_needed_by_another_client_stays():
    """Without turns of its own client there is no evidence."""
    row = RuleRow("a", "p", "", on=True, client="openclaw", fired=0, turns=0, failed=0)
    assert row.retire(50) is None
    row = RuleRow("a", "p", "", on=True, client="openclaw", fired=0, turns=60, failed=0)
    assert row.retire(50).endswith("in the last 60 turns of openclaw")
    assert RuleRow("a", "p", "", on=True, client=None).retire(1) is None


SLOW = RULE.format("late", "(a|aa)+$")


@pytest.fixture
def _alone(monkeypatch):
    """No package: that theirs are well is tried elsewhere."""
    names = (entry.name for entry in entry_points(group="cacheproxy"))
    monkeypatch.setenv("CACHEPROXY_BLOCK", ",".join(names))


@pytest.mark.usefixtures("_alone")
def test_check_says_which_rule_is_slow(file, tmp_path):
    """In words and as JSON, of the configuration or of a file; the exit code is 1."""
    assert "stamp" in printed("rules", "check")
    (tmp_path / "own.toml").write_text(SLOW + STAMP)
    result = invoke("rules", "check", tmp_path / "own.toml")
    assert result.exit_code == 1
    said = "slow: its pattern takes too long on some texts of 100 characters"
    last = result.stdout.splitlines()[-1]  # behind a long list it would not be seen
    assert last.split() == ["late", *said.split(), "(the", "config", "file)"]
    result = invoke("rules", "--config", tmp_path / "own.toml", "check", "--json")
    rows = {row["name"]: row for row in json.loads(result.stdout)["rules"]}
    assert (rows["late"]["said"], rows["late"]["exit_code"]) == (said, 1)
    assert (rows["stamp"]["said"], rows["stamp"]["exit_code"]) == ("ok", 0)


@pytest.mark.usefixtures("_alone")
def test_check_says_which_rule_is_wrong(file):
    """A pattern that matches nothing at all, or that is none; the exit code is 2."""
    file.write_text(RULE.format("empty", "x*"))
    result = invoke("rules", "check")
    assert result.exit_code == 2
    assert "empty" in result.stdout
    assert "wrong: its pattern matches the empty text" in result.stdout
    file.write_text(RULE.format("bad", "("))
    assert "bad pattern" in one_line(invoke("rules", "check"))


def test_a_slow_rule_is_not_appended(file):
    """The file is as it was."""
    with pytest.raises(AppendError, match="rule 'late' is slow"):
        append([SLOW], str(file))
    assert SLOW not in file.read_text()
