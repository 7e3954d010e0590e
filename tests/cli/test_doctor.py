"""The command as people run it."""

from __future__ import annotations

import json
import socket
from functools import partial

import pytest
from click.testing import CliRunner

from cacheproxy.cli.doctor import doctor
from tests.cli.invoking import invoke, refused
from tests.core.serverlog.test_reader import turn
from tests.doctor.conftest import llama, model, nobody, peer, proxy  # noqa: F401 (fixtures)

run = partial(invoke, "doctor")


def told(*arguments, code, **environ):
    """The JSON object, and its findings by name."""
    result = run("--json", *arguments, **environ)
    assert result.exit_code == code, result.output
    assert result.stderr == ""
    value = json.loads(result.stdout)
    assert value["exit_code"] == code
    return value, {finding["name"]: finding for finding in value["findings"]}


@pytest.mark.slow
@pytest.mark.llama
def test_all_is_well(proxy):  # noqa: F811
    """The verdict, and the figures of both APIs."""
    value, findings = told("--proxy", proxy.url, code=0)
    assert value["answer"] == "YES"
    assert {trial["path"] for trial in value["trials"]} == {"/v1/chat/completions", "/v1/messages"}
    for trial in value["trials"]:
        assert trial["second"]["reused"] > 600
        assert trial["without"]["reused"] < 100
    assert value["upstream"]["server"]["kind"] == "llama-server"
    assert findings["proxy"]["state"] == "ok"
    assert "traffic" in findings


@pytest.mark.slow
@pytest.mark.llama
def test_without_a_proxy_the_rules_are_tried_here(llama, nobody):  # noqa: F811
    """That nothing listens is the problem, and what it would do is told."""
    pytest.importorskip("cacheproxy_claude_code")
    value, findings = told("--proxy", nobody, "--upstream", llama.url, code=1)
    assert value["answer"] == "NO"
    assert findings["proxy"]["state"] == "FAIL"
    assert findings["reuse"]["state"] == "ok"


@pytest.mark.slow
@pytest.mark.llama
def test_no_send_sends_nothing(llama, proxy):  # noqa: F811
    """The server has no more work than before."""
    before = told("--proxy", proxy.url, "--no-send", code=0)[0]["upstream"]["load"]
    value, findings = told("--proxy", proxy.url, "--no-send", code=0)
    assert value["upstream"]["load"] == before
    assert value["answer"] == "NOT MEASURED"
    assert findings["reuse"]["text"] == "not tried, since --no-send was given"


@pytest.mark.slow
@pytest.mark.llama
def test_settings_of_the_client(llama, proxy):  # noqa: F811
    """Claude Code set to go past the proxy is a problem; words as in the text."""
    result = run("--proxy", proxy.url, ANTHROPIC_BASE_URL=llama.url)
    assert result.exit_code == 1
    assert (
        "Is the cache working?   NOT MEASURED   Claude Code is set up to go past"
    ) in result.stdout
    assert "  claude    FAIL  " in result.stdout
    assert "Exit code 1." in result.stdout
    for command in ("cacheproxy doctor --json", "cacheproxy env claude"):
        assert f"{command} --proxy {proxy.url}" in result.stdout  # so that it can be copied


def test_a_server_without_usage(peer, nobody):  # noqa: F811
    """Nothing is claimed."""
    pages = {"/v1/models": {"data": [{"id": "m"}]}, "/v1/chat/completions": {"choices": []}}
    value, findings = told("--proxy", nobody, "--upstream", peer(pages).url, code=1)
    assert value["answer"] == "NOT MEASURED"
    assert "does not say what it reused" in findings["reuse"]["text"]


def test_ollama_is_not_made_to_load_a_model(peer, nobody):  # noqa: F811
    """Unless one is named."""
    server = peer({"/api/version": {"version": "0.30.0"}, "/v1/models": {"data": [{"id": "m"}]}})
    _, findings = told("--proxy", nobody, "--upstream", server.url, code=1)
    assert "/v1/chat/completions" not in server.asked
    assert "would load a model" in findings["reuse"]["text"]
    told("--proxy", nobody, "--upstream", server.url, "--model", "m", code=1)
    assert "/v1/chat/completions" in server.asked


def test_a_vendor_s_server_gets_no_test_prompt(peer, nobody, monkeypatch):  # noqa: F811
    """It imitates a field that vendors check; nothing is edited there either."""
    server = peer({"/v1/models": {"data": [{"id": "m"}]}})
    port = server.url.rpartition(":")[2]
    resolve = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *rest, **more: resolve("127.0.0.1", *rest, **more)
    )
    url = f"http://api.vendor.example:{port}"
    _, findings = told("--proxy", nobody, "--upstream", url, code=1)
    assert not [path for path in server.asked if path.startswith("/v1/chat")]
    assert "not on your own network" in findings["reuse"]["text"]


def test_everything_is_down(nobody):  # noqa: F811
    """Two problems, and still a report."""
    value, findings = told("--proxy", nobody, "--upstream", "http://127.0.0.1:10", code=1)
    assert value["answer"] == "NOT MEASURED"
    assert findings["upstream"]["state"] == "FAIL"
    assert value["trials"] == []


def test_the_proxy_is_where_the_configuration_says():
    """Port, interface or endpoint; a free port cannot be known."""
    for environ, url in [
        ({"CACHEPROXY_PORT": "9"}, "http://127.0.0.1:9"),
        ({"CACHEPROXY_PORT": "9", "CACHEPROXY_INTERFACE": "0.0.0.0"}, "http://127.0.0.1:9"),
        ({"CACHEPROXY_PORT": "9", "CACHEPROXY_INTERFACE": "::1"}, "http://[::1]:9"),
        ({"CACHEPROXY_LISTEN": "tcp:9:interface=127.0.0.1"}, "http://127.0.0.1:9"),
        ({"CACHEPROXY_LISTEN": "tcp:port=9"}, "http://127.0.0.1:9"),
    ]:
        value, _ = told("--upstream", "http://127.0.0.1:10", code=1, **environ)
        assert value["proxy"]["url"] == url
    assert "--proxy" in refused("doctor", CACHEPROXY_PORT="0")
    assert "--proxy" in refused("doctor", CACHEPROXY_LISTEN="unix:/run/x")


def test_a_server_log(tmp_path):
    """Read, and nothing is asked or sent."""
    log = tmp_path / "llama.log"
    log.write_bytes(b"\xff\xfe\n" + (turn(1, 18_000, 0) + turn(2, 18_211, 33)).encode())
    result = run("--server-log", str(log))
    assert result.exit_code == 1
    assert "BREAK" in result.stdout
    value, _ = told("--server-log", str(log), code=1)
    assert [request["verdict"] for request in value["requests"]] == ["cold", "BREAK"]
    piped = CliRunner().invoke(
        doctor, ["--server-log", "-"], input=b"\xff\n" + turn(1, 18_000, 0).encode()
    )
    assert piped.exit_code == 0


def test_the_help_says_what_it_costs():
    """And how to leave it out."""
    text = " ".join(run("--help").stdout.split()).replace("llama- server", "llama-server")
    assert "two or three short prefills" in text
    assert "might push a conversation out of llama-server's slots, doctor asks first" in text
    assert "--send / --no-send" in text
