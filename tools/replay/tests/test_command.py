"""The command as people run it."""

import json
import signal
import subprocess
import sys
import threading
from functools import partial

import pytest

from tests import conversation
from tests.cli.invoking import invoke, refused
from tests.peer import NO_USAGE, NOBODY, NOT_REUSED, Peer
from tests.proxy.harness import TIMEOUT, eventually, running

PROGRAM = "from cacheproxy_replay.command import replay; replay()"


@pytest.fixture(autouse=True)
def _own_settings(monkeypatch, tmp_path):
    file = tmp_path / "config.toml"
    file.write_text(conversation.RULE)
    monkeypatch.setenv("CACHEPROXY_CONFIG", str(file))


@pytest.fixture
def capture(tmp_path):
    file = tmp_path / "agent.jsonl"
    file.write_text("\n".join(conversation.lines()) + "\n")
    return file


run, refused = partial(invoke, "replay"), partial(refused, "replay")


@pytest.mark.slow
@pytest.mark.llama
def test_it_prints_both_passes_and_the_gain(llama, capture, tmp_path):
    result = run(capture, "--against", llama.url + "/v1/", "--save", tmp_path / "out.json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert (
        "Replaying 4 requests twice, in order, max_tokens=1. Both passes start with a cold cache."
    ) in (result.stdout)
    assert "fewer prompt tokens to evaluate" in result.stdout
    assert "\x1b" not in result.stdout
    assert conversation.SECRET not in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 96
    saved = json.loads((tmp_path / "out.json").read_text())
    assert saved["ratio"]["evaluated"] > 1.5
    assert saved["expected"] == "counted"
    assert "nonce" in saved["rules"]


@pytest.mark.slow
@pytest.mark.llama
def test_a_rule_left_out_leaves_the_passes_alike(llama, capture):
    result = run(
        capture, "--against", llama.url, "--without-rule", "nonce", "--json", "--via", "rules"
    )
    assert result.exit_code == 0, result.output
    value = json.loads(result.stdout)
    assert value["verdict"].startswith("No difference")
    assert [turn["verdict"] for turn in value["through"]["turns"]] == ["cold"] + ["BREAK"] * 3


@pytest.mark.slow
@pytest.mark.llama
def test_a_truncated_line_is_one_line_and_the_good_ones_are_used(llama, capture):
    good = capture.read_text()
    capture.write_text(good + good[:200])
    result = run(capture, "--against", llama.url, "--markdown", "--via", "rules")
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert f"{capture}:5: " in line
    assert "| prompt tokens |" in result.stdout
    assert "Replaying 4 requests" in result.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--against", NOBODY, "--session", "x9"), "no session is called x9"),
        (("--against", NOBODY, "--with-rule", "x9"), "no rule is called x9"),
        (("--against", "localhost"), "http://localhost:8080"),
        (("--against", NOBODY), "correct --against"),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_code_2(words, said, capture):
    assert said in refused(capture, *words)


def against(answer, capture, *more):
    with Peer(posts=answer) as peer:
        result = run(capture, "--against", peer.url, "--via", "rules", *more)
    assert result.exit_code == 2
    return result


@pytest.mark.parametrize(
    ("answer", "said", "is_shown"),
    [
        ((401, {"error": "invalid api key"}), "--api-key", False),
        (NO_USAGE, "no usage", True),
        (NOT_REUSED, "does not say what it reused", True),
    ],
)
def test_a_bad_server_is_one_line_too_and_still_has_its_seconds(answer, said, is_shown, capture):
    result = against(answer, capture)
    (line,) = result.stderr.splitlines()
    assert said in line
    assert ("first token, total" in result.stdout) is is_shown


def test_a_file_that_cannot_be_saved(capture, tmp_path):
    result = against(NOT_REUSED, capture, "--save", tmp_path)
    assert "cannot write" in result.stderr
    assert "Replaying" in result.stdout


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_measured(capture):
    """What both passes have, or the first alone, is printed; the exit code is the shells' own."""
    asked, over = [], threading.Event()

    def answer(_):
        asked.append(1)
        if len(asked) == 7:
            over.wait(TIMEOUT)
        return NOT_REUSED

    with (
        Peer(posts=answer) as peer,
        running(
            [sys.executable, "-c", PROGRAM, capture, "--against", peer.url, "--via", "rules"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as command,
    ):
        try:
            eventually(lambda: len(asked) > 6)
            command.send_signal(signal.SIGINT)
            output, errors = command.communicate(timeout=TIMEOUT)
        finally:
            over.set()
    assert command.returncode == 130
    assert output.startswith("Interrupted. Replaying 4 requests")
    assert "As captured" in output
    assert "Traceback" not in errors
