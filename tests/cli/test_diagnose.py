"""``cacheproxy diagnose`` as people run it (diagnose.txt)."""

import json
import tomllib
from functools import partial
from pathlib import Path

import pytest

from cacheproxy.sources import default_file
from tests import golden
from tests.cli.invoking import invoke, one_line, transcript
from tests.core.diagnose.test_volatile import set_system
from tests.core.planting import anthropic, chat, insert, jsonl, numbered, plant
from tests.peer import Peer

FILE = Path(__file__).with_name("diagnose.txt")
run = partial(invoke, "diagnose")
propose = partial(run, "--propose", "--apply")


def planted(tmp_path, kind="nonce", bodies=anthropic, at=500, agent=None):
    def change(body, turn):
        set_system(body, lambda text: insert(text, at, f"run id: {numbered(kind, turn)}."))

    file = tmp_path / f"{(agent or 'x')[0]}.jsonl"
    text = jsonl(plant(bodies(4), change))
    if agent is not None:
        records = [json.loads(line) for line in text.splitlines()]
        for record in records:
            record["headers"] |= {"user-agent": agent, "x-session-id": f"planted by {agent}"}
        text = "\n".join(map(json.dumps, records))
    file.write_text(text)
    return file


def changed(**more):
    """Captured turns, in each of which something is as told for its place."""

    def lines(tmp_path):
        found = [json.loads(line) for line in planted(tmp_path).read_text().splitlines()]
        for number, line in enumerate(found):
            line |= {name: values[number] for name, values in more.items()}
        return "\n".join(map(json.dumps, found))

    return lines


def failed(_):
    found = [json.loads(line) for line in jsonl(anthropic(4)).splitlines()]
    found[1] |= {"status": 200}
    found[2] |= {"status": 400, "error": "no such slot", "body": found[0]["body"]}
    return "\n".join(map(json.dumps, found))


def controls(body, turn):
    set_system(body, lambda text: f"\x1b[31m\x07 n={turn} \x9b\n{text}")


def of_the_user(body, turn):
    body["messages"][1]["content"] = f"at {numbered('clock', turn)} hello there my friend"


CASES = {
    "the last turn": (None, ["", "last --json"]),
    "one of them": (None, ["1", "2"]),
    "none of them": (None, ["99", "0", "x"]),
    "what failed is no turn before": (failed, ["", "3"]),
    "a number is that of the log": (changed(number=(7, 8, 1, 7)), ["7", "2"]),
    "control characters": (lambda _: jsonl(plant(chat(3), controls)), [""]),
    "a truncated line": (lambda folder: planted(folder).read_text()[:-100], [""]),
    "a rule is proposed": (None, ["--propose", "--propose --json"]),
    "a rule is applied": (None, ["--propose --apply", "--propose"]),
    "what a user wrote": (lambda _: jsonl(plant(chat(4), of_the_user)), ["--propose --apply"]),
}


@pytest.mark.parametrize("name", CASES)
def test_what_it_says_of_captured_turns(name, tmp_path, monkeypatch):
    """One line for what cannot be done; a mark below what is new."""
    text, commands = CASES[name]
    file = planted(tmp_path)
    if text is not None:
        file.write_text(text(tmp_path))
    monkeypatch.chdir(tmp_path)
    config = default_file()
    said = transcript(*(f"diagnose {one} --from x.jsonl" for one in commands), config=config)
    golden.agrees(FILE, name, said)
    assert config.exists() is (name == "a rule is applied")
    if "--json" not in said and "--propose" not in said:
        assert max(map(len, said.splitlines())) <= 96


@pytest.fixture
def proxy():
    """A proxy that tells of its last turn what it is told."""
    with Peer() as peer:
        yield peer.url, lambda page: peer.pages.update({"/_cacheproxy/diagnose/last": page})


def test_a_running_proxy_says_the_same(proxy, tmp_path):
    """Its commands name that proxy, where they would not find it: they are there to be copied."""
    url, tells = proxy
    report = json.loads(run("last", "--json", "--from", planted(tmp_path)).stdout)
    tells(report)
    text = run("last", "--from", planted(tmp_path)).stdout
    assert run("--proxy", url).stdout == run("--proxy", url.removeprefix("http://")).stdout == text
    tells(report | {"advice": [{"do": "a rule", "why": "cacheproxy diagnose 3 --propose"}]})
    assert f"cacheproxy diagnose 3 --propose --proxy {url}\n" in run("--proxy", url).stdout


@pytest.mark.parametrize("page", [b"<html>", (500, {}), {}, [1], (404, {"error": "there is none"})])
def test_something_else_answers(proxy, page):
    """One line: with the proxy's own words, or the URL."""
    url, tells = proxy
    tells(page)
    line = one_line(run("--proxy", url))
    assert url in line or line == "cacheproxy: there is none"


@pytest.mark.parametrize(
    ("agents", "client"),
    [
        (("codex_exec/0.169",), "codex"),
        (("OpenAI/JS 7.15.0",), "openai-sdk"),
        (("codex_exec/0.169", "QwenCode/0.24"), None),
        ((None,), None),
    ],
)
def test_seen_in_one_client_it_is_for_that_client(tmp_path, agents, client):
    files = [planted(tmp_path, agent=agent) for agent in agents]
    assert propose(*(part for file in files for part in ("--from", file))).exit_code == 0
    (table,) = tomllib.loads(default_file().read_text())["rule"]
    assert table.get("client") == client
    assert f"     {table['name']}\n" in invoke("inspect", *files).stdout


BEFORE = '# mine\nport = 8099\n\n[[rule]]\nname = "x"\nwhere = "system"\npattern = "x"\npin = true'


def test_appended_to_what_is_there(tmp_path):
    """A link stays one; nothing else is left beside it."""
    config, link = tmp_path / "mine.toml", tmp_path / "link.toml"
    config.write_text(BEFORE)
    config.chmod(0o640)
    link.symlink_to(config)
    assert propose("-c", link, "--from", planted(tmp_path)).exit_code == 0
    assert config.read_text().startswith(BEFORE)
    assert len(tomllib.loads(config.read_text())["rule"]) == 2
    assert config.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()
    assert [file.name for file in tmp_path.iterdir() if "mine" in file.name] == ["mine.toml"]


def test_a_named_file_is_made_and_one_that_is_wrong_before_or_after_is_left(tmp_path):
    """It is private."""
    config, file = tmp_path / "new" / "mine.toml", planted(tmp_path)
    assert propose("-c", config, "--from", file).exit_code == 0
    assert config.stat().st_mode & 0o777 == 0o600
    for before in ("port = ", "rule = []\n", "prot = 1\n"):
        config.write_text(before)
        assert str(config) in one_line(propose("-c", config, "--from", file))
        assert config.read_text() == before
