"""The command as people run it (doctor.txt); what it says of all that it may find: tests/doctor."""

import json
import re
import socket
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from cacheproxy.cli.doctor import doctor
from tests import golden
from tests.cli.invoking import invoke, printed, refused, transcript
from tests.core.serverlog.test_reader import turn
from tests.doctor.conftest import llama, model, nobody, peer, proxy  # noqa: F401 (fixtures)
from tests.peer import NOBODY

run = partial(invoke, "doctor")
FILE = Path(__file__).with_name("doctor.txt")


@pytest.mark.slow
@pytest.mark.llama
def test_all_is_well_unless_the_agent_goes_past_it(proxy, llama):  # noqa: F811
    """The verdict, and the figures of both APIs; with --no-send the server has no more work."""
    value = json.loads(printed("doctor", "--json", "--proxy", proxy.url))
    assert (value["answer"], value["exit_code"]) == ("YES", 0)
    assert {trial["path"] for trial in value["trials"]} == {"/v1/chat/completions", "/v1/messages"}
    for trial in value["trials"]:
        assert trial["second"]["reused"] > 600
        assert trial["without"]["reused"] < 100
    assert value["upstream"]["server"]["kind"] == "llama-server"
    quiet = [
        json.loads(printed("doctor", "--json", "--proxy", proxy.url, "--no-send")) for _ in range(2)
    ]
    assert quiet[0]["upstream"]["load"] == quiet[1]["upstream"]["load"]
    result = run("--proxy", proxy.url, ANTHROPIC_BASE_URL=llama.url)
    assert result.exit_code == 1
    text = " ".join(result.stdout.split())
    assert "working? NOT MEASURED Claude Code is set up to go past" in text
    assert f"cacheproxy doctor --json --proxy {proxy.url}" in text  # so that it can be copied
    assert f"cacheproxy run --proxy {proxy.url} claude" in text


MODELS = {"/v1/models": {"data": [{"id": "m"}]}}
SERVERS = {
    "a server without usage": (MODELS | {"/v1/chat/completions": {"choices": []}}, ""),
    "Ollama, which would load a model": (MODELS | {"/api/version": {"version": "0.30.0"}}, ""),
    "Ollama, with a model": (MODELS | {"/api/version": {"version": "0.30.0"}}, "--model m"),
    "a vendor's server": (MODELS, ""),
}


@pytest.fixture
def _alone(monkeypatch):
    """No client package: they are many."""
    for name in ("loading", "packages"):
        target = f"cacheproxy.plugin.{name}.entry_points"
        monkeypatch.setattr(target, lambda _: [], raising=False)


@pytest.mark.usefixtures("_alone")
@pytest.mark.parametrize("name", SERVERS)
def test_a_server_without_a_proxy(peer, monkeypatch, name):  # noqa: F811
    """Nothing is claimed that was not measured; a vendor's server gets no test prompt."""
    pages, options = SERVERS[name]
    server = peer(pages)
    url = server.url
    if name.startswith("a vendor"):
        resolve = socket.getaddrinfo
        monkeypatch.setattr(
            socket, "getaddrinfo", lambda host, *rest, **more: resolve("127.0.0.1", *rest, **more)
        )
        url = url.replace("127.0.0.1", "api.vendor.example")
    said = transcript(f"doctor --proxy {NOBODY} --upstream URL {options}", url=url)
    said = re.sub(r"\d+\.\d\d s|\d+ ms", "TIME", said)
    golden.agrees(FILE, name, "\n".join(line.strip() for line in said.splitlines()))
    asked = any(path.startswith("/v1/chat") for path in server.asked)
    assert asked == (name in ("a server without usage", "Ollama, with a model"))


@pytest.mark.usefixtures("_alone")
def test_everything_is_down():
    """Two problems, and still a report."""
    said = transcript(f"doctor --proxy {NOBODY} --upstream http://127.0.0.1:10")
    golden.agrees(FILE, "everything is down", said)


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        ({"CACHEPROXY_PORT": "9"}, "http://127.0.0.1:9"),
        ({"CACHEPROXY_PORT": "9", "CACHEPROXY_INTERFACE": "0.0.0.0"}, "http://127.0.0.1:9"),
        ({"CACHEPROXY_PORT": "9", "CACHEPROXY_INTERFACE": "::1"}, "http://[::1]:9"),
        ({"CACHEPROXY_LISTEN": "tcp:9:interface=127.0.0.1"}, "http://127.0.0.1:9"),
        ({"CACHEPROXY_LISTEN": "tcp:port=9"}, "http://127.0.0.1:9"),
        ({"CACHEPROXY_PORT": "0"}, None),
        ({"CACHEPROXY_LISTEN": "unix:/run/x"}, None),
    ],
)
def test_the_proxy_is_where_the_configuration_says(environ, url):
    """Port, interface or endpoint; a free port cannot be known."""
    if url is None:
        assert "--proxy" in refused("doctor", **environ)
    else:
        result = run("--json", "--upstream", "http://127.0.0.1:10", **environ)
        assert json.loads(result.stdout)["proxy"]["url"] == url


def test_a_server_log(tmp_path):
    """Read, and nothing is asked or sent."""
    log = tmp_path / "llama.log"
    log.write_bytes(b"\xff\xfe\n" + (turn(1, 18_000, 0) + turn(2, 18_211, 33)).encode())
    said = transcript(
        "doctor --server-log LOG",
        "doctor --server-log LOG --json",
        "doctor --server-log LOGS",
        log=log,
    )
    golden.agrees(FILE, "a server's log", said)
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
