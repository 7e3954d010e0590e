"""A report on a log: the real server's, as it is written today."""

import io

import pytest
from cacheproxy_demo.embedded import LlamaServer
from rich.console import Console

from cacheproxy.client_setup.finding import FindingState
from cacheproxy.core.dialects.chat import CHAT
from cacheproxy.doctor.server_log import read
from cacheproxy.doctor.trial_prompt import body
from cacheproxy.http_client import CommandError, Site
from tests.core.serverlog.test_reader import turn
from tests.doctor.builders import HEADS


def text(report):
    return report.text(Console(file=io.StringIO(), width=96))


@pytest.mark.llama
@pytest.mark.parametrize("verbosity", [3, 4])
def test_the_real_server_s_log(model, verbosity):
    """What the log tells is what the answers told, at the default verbosity, too."""
    headers = [HEADS.texts[0]] * 2 + [HEADS.texts[1]]
    with LlamaServer(model, n_ctx=2048, verbosity=verbosity, cache_ram_mib=64) as server:
        site = Site(server.url)
        usages = [
            site.post("/v1/chat/completions", body(CHAT, "m", header, "x"), 60).json()["usage"]
            for header in headers
        ]
    server.close()
    report = read(server.log().splitlines(keepends=True), "llama.log")
    requests = report.json()["requests"]
    assert [one["prompt"] for one in requests] == [usage["prompt_tokens"] for usage in usages]
    assert [one["reused"] for one in requests] == [
        usage["prompt_tokens_details"]["cached_tokens"] for usage in usages
    ]
    assert [one["verdict"] for one in requests] == ["cold", "ok", "BREAK"]
    assert {one["derived"] for one in requests} == {verbosity == 3}
    left_out = [one.fix for one in report.findings if "could go back in its memory" in one.text]
    assert left_out == ["llama-server --verbosity 4 logs all of that"] * (verbosity == 3)


@pytest.mark.parametrize(
    ("turns", "verdict", "code"),
    [
        (
            ((3, 18_904, 2_498), (2, 18_211, 33), (3, 18_904, 2_498)),
            "NO   2 of 2 follow-up turns lost the cache; 9 % of 56.0K tokens in 3",
            1,
        ),
        (((1, 18_000, 0), (2, 18_211, 18_000)), "YES   50 % of 36.2K tokens in 2 turns were", 0),
        (((1, 18_000, 0),), "NOT MEASURED   0 % of 18.0K tokens in 1 turn were reused; none", 0),
    ],
)
def test_a_conversation_is_reused_or_broken_or_proves_nothing(turns, verdict, code):
    """One cold request proves neither that it works nor that it does not."""
    report = read("".join(turn(*one) for one in turns).splitlines(), "x")
    shown = text(report)
    assert shown.startswith(f"Is the cache working?   {verdict}")
    assert ("BREAK  one of 18," in shown) is bool(code)
    assert report.exit_code == code
    assert max(map(len, shown.splitlines())) <= 99


def test_only_the_last_requests_are_shown():
    """All are in the JSON."""
    lines = "".join(turn(n, 18_000 + n, 17_999 * bool(n)) for n in range(50)).splitlines()
    report = read(lines, "x")
    assert "10 earlier requests are not shown" in text(report)
    assert len(report.json()["requests"]) == 50


def test_what_the_server_itself_said():
    """Evictions, recomputed prompts, cut and refused ones: each with what mends it."""
    log = turn(1, 9_000, 0) + turn(2, 9_100, 9_000).replace("truncated = 0", "truncated = 1")
    log += (
        "srv alloc:  - making room for prompt cache entry, removing oldest entry (size = 1 MiB)\n"
    )
    log += (
        "slot update_slots: id  0 | task 3 | forcing full prompt re-processing due to lack\n"
        "srv    send_error: task id = 3, error: request (9 tokens) exceeds the context, x\n"
    )
    names = [(finding.name, finding.state) for finding in read(log.splitlines(), "x").findings]
    for name in ("memory", "cache-ram", "context"):
        assert (name, FindingState.WARN) in names


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("", "is not a log of llama-server:"),
        ("Traceback (most recent call last):\n", "is not a log of llama-server:"),
        ("srv  update_slots: all slots are idle\n", "log of llama-server, but it shows"),
    ],
)
def test_a_log_of_another_kind(log, words):
    with pytest.raises(CommandError, match=words) as caught:
        read(log.splitlines(), "my.log")
    assert str(caught.value).startswith("my.log ")
    assert "\n" not in str(caught.value)
