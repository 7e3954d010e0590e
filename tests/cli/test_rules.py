"""``cacheproxy rules``: what each rule did in a running proxy, and what needs none (rules.txt)."""

import json
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from cacheproxy.cli.rules import look
from cacheproxy.configfile import AppendError, append
from cacheproxy.sources import default_file
from tests import golden, transcript
from tests.cli.invoking import transcript as printed
from tests.proxy.harness import Client, Proxy, Upstream, eventually, free_port, whole

RULE = "[[rule]]\nname = '{}'\nwhere = 'system'\npattern = '{}'\nreplacement = ''\n"
STAMP = RULE.format("stamp", r"now: \d+") + "why = 'a clock'\n"
NEVER = RULE.format("never", "nosuch")
OFF = RULE.format("sleeping", "x") + "why = 'rare'\ndefault = false\nclient = 'codex'\n"
SLOW = RULE.format("late", "(a|aa)+$")
FILE = Path(__file__).with_name("rules.txt")


@pytest.fixture(autouse=True)
def file(monkeypatch):
    """The user's config file; no package: that theirs are well is tried elsewhere."""
    names = (entry.name for entry in entry_points(group="cacheproxy"))
    monkeypatch.setenv("CACHEPROXY_BLOCK", ",".join(names))
    file = default_file()
    file.parent.mkdir(parents=True)
    file.write_text(STAMP + NEVER + OFF)
    return file


@pytest.mark.slow
def test_what_each_rule_did(file, tmp_path, monkeypatch):
    """Counted by the running proxy; what it never needed is named, with the evidence.

    What is on is what the proxy says, not what the settings of this shell would make of it.
    """
    upstream = Upstream()
    upstream.reset(lambda peer, _: peer.send(whole(b"{}")))
    with (
        Proxy(tmp_path, "--config", str(file), "--upstream", upstream.url) as proxy,
        Client(proxy.address) as client,
    ):
        for number in range(3):
            words = [{"role": "user", "content": str(n)} for n in range(2 * number + 1)]
            body = json.dumps({"system": f"now: {number}", "messages": words}).encode()
            fields = (b"User-Agent: claude-cli/2.1", b"Content-Type: application/json")
            client.ask("/v1/messages", body, *fields).answer()
        monkeypatch.setenv("CACHEPROXY_DISABLE", "stamp")
        eventually(lambda: look(proxy.url, {}).turns_of(None) == 3)
        commands = ("rules --turns 3", "rules", "rules --turns 3 --json")
        said = printed(*(f"{one} --proxy URL" for one in commands), url=proxy.url)
    golden.agrees(FILE, "of a running proxy", said)
    upstream.close()


def test_without_a_proxy(monkeypatch):
    """What is installed, and one line that says what is not known."""
    monkeypatch.setenv("CACHEPROXY_DISABLE", "stamp")
    said = printed("rules --proxy URL", url=f"http://127.0.0.1:{free_port()}")
    golden.agrees(FILE, "without a proxy", said)


CHECKS = {
    "all is well": ("", STAMP),
    "one is slow": ("", SLOW + STAMP),
    "one is slow, as JSON": ("--json", SLOW + STAMP),
    "one matches nothing at all": ("", RULE.format("empty", "x*")),
    "one is no pattern": ("", RULE.format("bad", "(")),
}


@pytest.mark.parametrize("name", CHECKS)
def test_check(name, tmp_path):
    """Of the configuration or of a file; the exit code is 1 for slow ones, 2 for wrong ones."""
    options, text = CHECKS[name]
    (tmp_path / "own.toml").write_text(text)
    command = f"rules check {options} FOLDER/own.toml"
    golden.agrees(FILE, f"check: {name}", printed(command, folder=tmp_path))
    default_file().write_text(text)  # the same as of a file that is named
    said = printed(f"rules check {options}").splitlines()[1:]
    kept = golden.sections(FILE)[f"check: {name}"].splitlines()[1:]
    assert said[-1] == kept[-1] or said[0].startswith("!")


def test_a_slow_rule_is_not_appended(file):
    """The file is as it was."""
    with pytest.raises(AppendError, match="rule 'late' is slow"):
        append([SLOW], str(file))
    assert SLOW not in file.read_text()


def test_what_is_counted_and_what_may_go():
    """Page by page, back to the first; a proxy without totals tells what it remembers."""

    def counted(pages, most=1000):
        """What is counted of a proxy that has these pages, and where it says it comes from."""

        def script(peer, received):
            page = pages.get(received.line.split(b" ")[1].decode().removeprefix("/_cacheproxy/"))
            missing = whole(b"{}", status=b"404 Not Found")
            peer.send(missing if page is None else whole(json.dumps(page).encode()))

        upstream = Upstream()
        upstream.reset(script)
        try:
            found = look(upstream.url, {}, most=most)
        finally:
            upstream.close()
        return found.exchanges, found.source.replace(upstream.url, "URL")

    transcript.holds("counted.txt", globals() | {"counted": counted})


def exchange(client="claude", turn=1, side=False, **rules):
    return {"client": client, "turn": turn, "side": side, "rules": rules}
