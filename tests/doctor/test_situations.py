"""What doctor says of seven situations, over real sockets; and what it says mends them is run."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cacheproxy.client_setup.finding import FindingState
from cacheproxy.config import Config
from cacheproxy.doctor.examine import Inputs, examine
from cacheproxy.doctor.report import conclude
from cacheproxy.http_client import Site
from tests.cli.invoking import invoke
from tests.doctor.situations import SITUATIONS, situation
from tests.proxy.harness import eventually

pytestmark = pytest.mark.slow
COMMAND = re.compile(r"cacheproxy (?!serve)[a-z].*")
SHARE = r"93 % of 17\.4K tokens in 9 turns were reused\."


@pytest.fixture
def shell(tmp_path, monkeypatch):
    """Run a line as a user would paste it; ``claude`` says where it would send its requests."""
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho $ANTHROPIC_BASE_URL\n")
    program.chmod(0o755)
    for name in filter(re.compile("CACHEPROXY").search, tuple(os.environ)):
        monkeypatch.delenv(name)
    monkeypatch.setenv(
        "PATH", f"{program.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    def run(line):
        return subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=False)

    return run


@pytest.fixture
def told(shell):
    """The answer of ``cacheproxy doctor``, and its findings by name."""

    def told(proxy, *options):
        found = invoke("doctor", "--json", "--proxy", proxy, *options)
        value = json.loads(found.stdout)
        assert found.exit_code == value["exit_code"]
        return value, {one["name"]: one for one in value["findings"]}

    return told


def try_fixes(shell, value, proxy):
    """Run each command that a fix has; return how many there were."""
    commands = 0
    for one in value["findings"]:
        fix = one["fix"] or ""
        found = COMMAND.search(fix)
        if fix.endswith(" claude"):
            assert shell(fix).stdout.strip() == proxy
        elif found is not None:
            done = shell(found[0])
            assert done.returncode == 0, (fix, done.stdout, done.stderr)
            assert done.stdout
            commands += 1
    return commands


def remembered(proxy):
    """What a running proxy shows of exchanges, and which one it would explain."""
    site = Site(proxy)
    return [site.tell(f"/_cacheproxy/{page}") for page in ("exchanges", "diagnose/last")]


CASES = {
    "works": (
        *("YES", 0, SHARE),
        {
            "traffic": ("ok", "9 requests with a prompt came through this proxy", None),
            "agents": ("ok", "seen: opencode (9 requests in 1 session, the last", None),
        },
        0,
    ),
    "breaks half the time": (
        *(
            "MOSTLY",
            0,
            r"4 of 8 follow-up turns lost the cache; 4\d % of 17\.\dK tokens in 9 turns",
        ),
        {"turns": ("warn", "system_changed 4", "cacheproxy diagnose 9 --proxy")},
        1,
    ),
    "cuts": (
        *("NO", 1, r"The server cut \d of 9 turns to fit its context; 15 % of 13.2K tokens in 9"),
        {"context": ("FAIL", "the last time it read 1,500 tokens", "env opencode")},
        1,
    ),
    "refuses": (
        *("NO", 1, r"All of the last 9 requests of opencode failed\."),
        {
            "requests": ("FAIL", 'with HTTP 500: "out of memory"', "the model server's log"),
            "reuse": ("warn", "answered 500 (out of memory)", None),
        },
        0,
    ),
    "hung": (
        *("NOT MEASURED", 1, r"No model server answers at \S+: no answer in time\."),
        {"upstream": ("FAIL", "no answer in time", "restart the model server")},
        0,
    ),
    "one of two down": (
        *("YES", 0, SHARE),
        {"upstreams": ("warn", "2 upstreams: big DOWN, small up", "start the model server big")},
        0,
    ),
    "no proxy": (
        *("NO", 1, r"No proxy answers at \S+\. With the rules a test prompt reused 576 of 577"),
        {"proxy": ("FAIL", "no proxy answers", "cacheproxy serve --upstream http")},
        0,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_doctor_says_of_it(name, told, shell):
    """The answer with its figure, the finding that matters, the exit code; what mends it runs."""
    answer, code, text, findings, commands = CASES[name]
    with situation(name) as (proxy, server):
        if name not in ("hung", "no proxy"):  # a break is shown once there is proof of it
            eventually(lambda: remembered(proxy)[0]["exchanges"][-1]["turn"] in (0, 9))
        before = remembered(proxy)
        value, found = told(proxy, *(["--upstream", server] if name == "no proxy" else []))
        assert remembered(proxy) == before  # our own prompts leave no trace
        assert (value["answer"], value["exit_code"]) == (answer, code), value
        assert re.match(text, value["text"]), value["text"]
        bad = {one for one in found if found[one]["state"] in ("FAIL", "warn")}
        assert bad == {one for one, (state, *_) in findings.items() if state in ("FAIL", "warn")}
        for one, (state, words, fix) in findings.items():
            assert found[one]["state"] == state
            assert words in found[one]["text"]
            assert fix is None or fix in found[one]["fix"]
        assert try_fixes(shell, value, proxy) == commands
        if name == "no proxy":
            start = ["sh", "-c", "exec " + found["proxy"]["fix"]]
            with subprocess.Popen(start, stderr=subprocess.DEVNULL) as started:
                try:
                    eventually(lambda: told(proxy)[1]["proxy"]["state"] == "ok")
                finally:
                    started.terminate()


def test_all_situations_are_told():
    assert {*CASES, "one malformed"} == set(SITUATIONS)


@pytest.mark.parametrize("ago", [1_800, 3_700])
def test_a_malformed_request_of_half_an_hour_ago_is_no_problem(tmp_path, ago):
    """Among good turns, all of them as long ago; after an hour neither is spoken of."""
    with situation("one malformed") as (proxy, _):
        inputs = Inputs(Config(), proxy, None, {}, tmp_path, clock=lambda: time.time() + ago)
        known, found = examine(inputs, lambda _: None)
    conclusion = conclude(known, found)
    notes = [one.text for one in found if one.name == "requests"]
    assert conclusion.answer == "YES"
    assert not [one for one in found if one.state in (FindingState.FAIL, FindingState.WARN)]
    if ago < 3_600:
        assert re.match(SHARE, conclusion.text)
        assert "failed, the last 30 min ago on /v1/chat/completions, with HTTP 400" in notes[0]
    else:
        assert conclusion.text.startswith("A test prompt reused")
        assert not notes
