"""A kind of server that a plugin brings, in front of a scripted server: the real proxy."""

import json
from types import ModuleType

import pytest
from click.testing import CliRunner

from cacheproxy.cli.plugins import plugins
from cacheproxy.core.kinds.known import put_in_force
from cacheproxy.plugin.package import package_of
from tests import transcript
from tests.core.templates import inline
from tests.proxy.harness import environment, eventually
from tests.proxy.placing.bodies import late
from tests.proxy.placing.templated import PATHS, ModelServer

PLUGIN = '''
"""A server that lists lanes, and reports reuse only with a flag."""
from dataclasses import replace

from cacheproxy import FlagAdvice, Memory, Recognition, Reporting, Reuse, Sample, ServerFigures
from cacheproxy import ServerKind, Settings, Slot, StatusReading


def look(look, answers):
    lanes = answers.pages.get("/lanes") or []
    slots = tuple(Slot(n, each["size"], each["used"], busy=False) for n, each in enumerate(lanes))
    return replace(look, slots=slots, start=(answers.pages.get("/info") or {}).get("boot"))


def sample(answers):
    stats = answers.pages.get("/stats")
    return stats and Sample(ServerFigures(prompt=stats["read"], reused=0), running=stats["running"])


SERVERS = [
    ServerKind(
        "ExampleServer",
        recognition=Recognition(
            mark=("/info", "exampleserver"),
            probes=("/info",),
            more=("/lanes", "/stats"),
            version_page="/info",
        ),
        reading=StatusReading(
            look=look,
            memory=lambda look, before: Memory(slots=len(look.slots) or before.slots, context=2048),
            sample=sample,
        ),
        reuse=Reuse(reporting=Reporting.FLAGGED),
        settings=Settings(
            reports="--report-cache",
            room=(FlagAdvice("--lanes 8", "more lanes"),),
        ),
    )
]
'''
STATUS = {
    "/health": {"status": "ok"},
    "/v1/models": {"data": [{"id": "qwen", "owned_by": "somebody"}]},
    "/info": {"exampleserver": True, "version": "1.2", "boot": "a"},
    "/lanes": [{"size": 2048, "used": 512}, {"size": 2048, "used": 0}],
    "/stats": {"read": 7, "running": 3},
}


def example(status=STATUS):
    return ModelServer(inline, reports=False, status=status)


def send(proxy, body):
    return proxy.ask(PATHS["messages"], json.dumps(body).encode())


def upstream(proxy):
    """Return what the dashboard shows of the server, which it looks at from time to time."""
    return proxy.page("data?window=15m")["upstream"]


@pytest.fixture(autouse=True)
def _nothing_stays():
    """A command puts the kinds in force in its process, which is ours here."""
    yield
    put_in_force(())


@pytest.fixture
def start(start, tmp_path):
    """Start a proxy with a plugin before a model server."""
    file = tmp_path / "servers.py"

    def with_plugin(server, code=PLUGIN, *arguments):
        file.write_text(code)
        return start(server, "--plugin", str(file), *arguments)

    return with_plugin


def test_a_server_is_recognised_by_the_kind_of_a_plugin(start):
    """Its pages are read, how it reports reuse is known, and its advice is given."""
    server = example()
    proxy = start(server)
    assert "ExampleServer 1.2" in proxy.output
    assert server.looked.index("/v1/models") < server.looked.index("/info")
    profile = proxy.page("health")["profile"]
    assert profile["memory"] == {"slots": 2, "context": 2048}
    assert profile["start"] == "a"
    assert profile["reporting"] == "with a flag"
    assert "the server reports reuse only with --report-cache" in profile["says"]["memory"]
    assert send(proxy, late()).status == 200
    eventually(lambda: proxy.page("data?window=15m")["todo"])
    (card,) = proxy.page("data?window=15m")["todo"]
    assert card["title"] == "Have ExampleServer report reuse"
    assert card["why"].startswith("Start it with --report-cache:")


def test_its_counters_and_a_restart_are_read_from_its_own_pages(start):
    """Without /metrics; the page of its version may change while it runs."""
    status = dict(STATUS)
    server = example(status)
    proxy = start(server, PLUGIN, "--poll", "0.05")
    eventually(lambda: upstream(proxy).get("metrics") == "on")
    assert upstream(proxy)["running"] == 3
    status["/info"] = STATUS["/info"] | {"boot": "b"}
    eventually(lambda: proxy.page("health")["profile"]["start"] == "b")
    assert upstream(proxy)["metrics"] == "on"


def test_a_built_in_kind_is_not_asked_for_the_pages_of_a_plugin(start):
    """They are probes: only a server that nobody recognised is asked."""
    models = {"data": [{"id": "qwen", "owned_by": "vllm"}]}
    server = example({"/health": STATUS["/health"], "/v1/models": models})
    proxy = start(server)
    assert "vLLM" in proxy.output
    assert not {"/info", "/lanes"} & set(server.looked)


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ("return None", "returned NoneType instead of Look"),
        ('raise SystemExit("a canary")', "raised SystemExit"),
    ],
)
def test_a_kind_that_raises_is_left_out_and_named(start, broken, why):
    """The server is a model server then, and all goes on; the plugin's name is said once."""
    code = PLUGIN.replace("    lanes = answers", f"    {broken}\n    lanes = answers")
    proxy = start(example(), code)
    proxy.wait_for(f"plugin servers: cacheproxy_server {why}")
    assert send(proxy, late()).status == 200
    found = proxy.page("health")
    assert found["upstream"]["server"]["kind"] == "model server"
    assert found["failures"]["servers: cacheproxy_server"]["failed"] == 1
    assert "canary" not in proxy.output


def brought(servers):
    module = ModuleType("servers")
    module.SERVERS = servers
    return package_of(module, "servers")


def test_kinds_that_are_none_are_refused():
    transcript.holds("kinds.txt", globals())


def test_plugins_lists_the_kinds(tmp_path, monkeypatch):
    (tmp_path / "servers.py").write_text(PLUGIN)
    monkeypatch.setenv("CACHEPROXY_BLOCK", environment(tmp_path)["CACHEPROXY_BLOCK"])
    arguments = ["--plugin", str(tmp_path / "servers.py")]
    assert "  server  ExampleServer\n" in CliRunner().invoke(plugins, arguments).output
    listed = json.loads(CliRunner().invoke(plugins, [*arguments, "--json"]).output)
    own = next(package for package in listed["packages"] if package["name"] == "servers")
    assert own["servers"] == ["ExampleServer"]
