"""Several real servers behind one proxy: where conversations go, and what is reused there."""

import contextlib
import json
import re
import signal

import pytest
from cacheproxy_demo.embedded import LlamaServer, write_model

from cacheproxy.child.process import ChildProxy
from cacheproxy.http_client import Site
from tests import needs
from tests.proxy.harness import eventually

from .replay import TOLERANCE

pytestmark = pytest.mark.slow

WORDS = [f"word{number}" for number in range(200)]
TOOL = {"name": "ls", "description": "lists files", "input_schema": {"type": "object"}}
SETTINGS = {"n_parallel": 2, "kv_unified": True, "cache_ram_mib": 512, "n_ctx": 16_384}
APART = {"n_parallel": 10, "cache_ram_mib": 0, "slot_prompt_similarity": 0.4, "n_ctx": 65_536}
"""Each conversation has a slot, and takes none for the little that all begin with."""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    needs.llama()
    folder = tmp_path_factory.mktemp("pool")
    return write_model(folder / "tiny.gguf", text=" ".join(WORDS) + json.dumps(TOOL))


@pytest.fixture
def pool(model, tmp_path):
    """Start workers by their names, each with more settings, and the proxy before them."""
    with contextlib.ExitStack() as stack:

        def start(routes="", options=(), keys="", **workers):
            servers, text = {}, ""
            for name, settings in workers.items():
                server = stack.enter_context(LlamaServer(model, **(SETTINGS | settings)))
                servers[name] = server
                text += f'[[upstream]]\nname = "{name}"\nurl = "{server.url}"\n{keys}\n'
            file = tmp_path / "pool.toml"
            file.write_text(text + routes)
            proxy = ChildProxy("", "--config", str(file), "--placement", "quiet", *options)
            return Pool(stack.enter_context(proxy), servers)

        yield start


class Pool:
    """The ``servers`` by their names, behind the ``proxy``."""

    def __init__(self, proxy, servers):
        self.proxy = proxy
        self.servers = servers
        self.counts = dict.fromkeys(servers, 0)

    def ask(self, session, turn, words=60):
        """Send a turn; return the usage, and the name of the server that evaluated it."""
        self.worked()
        headers = {"X-Session-ID": session, "User-Agent": "claude-cli/2"}
        asked = body(session, turn, words)
        answer = Site(self.proxy.url, headers).post("/v1/messages", json.dumps(asked).encode())
        assert answer.status == 200, answer.body
        (name,) = self.worked()
        usage = json.loads(answer.body)["usage"]
        return usage["input_tokens"], usage.get("cache_read_input_tokens", 0), name

    def worked(self):
        """The names of those who have evaluated a prompt since this was asked last."""
        found = []
        for name, server in self.servers.items():
            if server.has_ended():
                continue
            page = Site(server.url).get("/metrics").body.decode()
            (count,) = re.findall(r"^llamacpp:prompt_tokens_total (\S+)", page, re.MULTILINE)
            if float(count) > self.counts[name]:
                found.append(name)
            self.counts[name] = float(count)
        return found


def body(session, turn, words):
    number = int(re.sub(r"\D", "", session) or 0)

    def say(at):
        return " ".join(WORDS[(number * 31 + at * 7 + i) % len(WORDS)] for i in range(words))

    messages = [{"role": "user", "content": f"{session} " + say(0)}]
    for at in range(1, turn):
        messages += [
            {"role": "assistant", "content": say(at)},
            {"role": "user", "content": say(at + 100)},
        ]
    fixed = {"model": "m", "max_tokens": 1, "system": "You help.", "tools": [TOOL]}
    return fixed | {"messages": messages}


def test_a_dead_worker_s_conversations_move_and_no_others(pool):
    """They reuse what they can where they went; the log has from where to where."""
    found = pool(big=APART, big2=APART, big3=APART)
    sessions = [f"s{number}" for number in range(9)]
    homes, before = {}, {}
    for session in sessions:
        new, reused, homes[session] = found.ask(session, 1, words=200)
        before[session] = new + reused
    assert set(homes.values()) == {"big", "big2", "big3"}
    dead = homes["s0"]
    for turn in range(2, 6):
        if turn == 3:
            found.servers[dead].signal(signal.SIGKILL)
            eventually(found.servers[dead].has_ended)
        for session in sessions:
            new, reused, home = found.ask(session, turn, words=200)
            if turn == 3 and homes[session] == dead:
                assert home != dead
            else:
                assert home == homes[session]
                assert reused >= before[session] - TOLERANCE
            homes[session], before[session] = home, new + reused
    log = found.proxy.log
    eventually(lambda: len(re.findall(rf"moved: {dead} -> big\d?, [\d,]+ tokens", log())) >= 2)


def test_a_conversation_that_outgrows_its_context_moves_to_a_larger_one(pool):
    """By what the servers say of their contexts; before that it stays."""
    routes = '[[route]]\nto = ["narrow"]\nmax_tokens = 400\n'
    found = pool(routes, ("--poll", "1"), narrow={"n_ctx": 4096}, wide={"n_ctx": 32_768})
    eventually(lambda: _contexts(found.proxy.url) == [4096, 32_768])
    assert found.ask("s1", 1)[2] == "narrow"
    homes = [found.ask("s1", turn, words=150)[2] for turn in range(1, 16)]
    assert homes.index("wide") > 3
    assert homes == sorted(homes)
    eventually(lambda: "moved: narrow -> wide" in found.proxy.log())  # the last turn may be it


def _contexts(url):
    page = json.loads(Site(url).get("/_cacheproxy/health").body)
    return [each["context"] for each in page["upstreams"]]
