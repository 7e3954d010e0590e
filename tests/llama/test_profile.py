"""What the proxy learns of the real server: its template, its slots, how it reports."""

import contextlib
import json
import signal
import time

import pytest

from cacheproxy.child.process import ChildProxy as Proxy
from cacheproxy.http_client import Site
from tests.proxy.harness import eventually, free_port

from .causes.servers import Llama
from .causes.talk import words
from .templates import REWRITING, TEMPLATES

pytestmark = pytest.mark.llama

BLOCK = {"writes_empty": True}
THOUGHTS = {
    "think": {"way": "dropped", **BLOCK},
    "keep": {"way": "kept on request", "asked_by": ["preserve_reasoning", True], **BLOCK},
}


def page_of(proxy, name):
    return Site(proxy.url).tell(f"/_cacheproxy/{name}")


def profile_of(proxy):
    return page_of(proxy, "health")["profile"]


def wait_for_slots(proxy, count):
    """Wait until the server was looked at, and ``count`` slots held a prompt."""
    begun = time.time()

    def is_seen():
        upstream = page_of(proxy, "data")["upstream"]
        held = sum(slot["used"] > 0 for slot in upstream["slots"])
        return upstream.get("seen", 0.0) > begun and held == count

    eventually(is_seen)


def chat(proxy, text):
    body = {"model": "random", "max_tokens": 1, "messages": [{"role": "user", "content": text}]}
    return Site(proxy.url).post("/v1/chat/completions", json.dumps(body).encode()).status


CLOCKS = ("clock", "clock-behind")
"""Templates that print the time."""


@pytest.mark.parametrize("name", [*TEMPLATES, *REWRITING])
def test_a_template_is_told_by_what_it_renders(serve, name):
    """Thinking, tools, the order, the time; where late messages stand is told beside it."""
    with Proxy(serve(name).url) as proxy:
        profile = profile_of(proxy)
    assert profile["thoughts"] == THOUGHTS.get(name, {"way": "never rendered"})
    assert profile["order"] == "system first"
    assert profile.get("tools_last", False) is (name == "tools")
    assert profile.get("clock", "") == ("the time" if name in CLOCKS else "")
    assert profile["page"] == "/apply-template"
    assert (profile["reporting"], profile["counts_reuse"]) == ("always", True)
    assert profile["start"]
    assert "placement" not in profile


def test_another_server_in_its_place_is_learned_anew(serve):
    """On the same port: its template, its start; nothing of the first one stays."""
    port = free_port()
    server = serve("keep", port=port)
    with Proxy(server.url, "--poll", "0.1") as proxy:
        first = profile_of(proxy)
        assert first["thoughts"] == THOUGHTS["keep"]
        server.close()
        serve("tools", port=port)
        eventually(lambda: (profile_of(proxy) or {}).get("tools_last"))
        second = profile_of(proxy)
    assert second["thoughts"] == {"way": "never rendered"}
    assert second["start"] != first["start"]


@pytest.mark.parametrize(
    ("ram", "left", "expected"),
    [(64, 1, {"is_unified": True, "has_ram": True, "capacity": 4096}), (0, 3, {})],
)
def test_what_happens_to_idle_slots_tells_of_the_memory(serve, ram, left, expected):
    """Its pages do not say that the slots share one, nor that prompts are kept in RAM."""
    server = serve(
        TEMPLATES["inline"], n_parallel=4, kv_unified=True, n_ctx=4096, cache_ram_mib=ram
    )
    with Proxy(server.url, "--poll", "0.1") as proxy:
        assert profile_of(proxy)["memory"] == {"slots": 4, "context": 4096}
        for count, letter in enumerate("abc", 1):
            assert chat(proxy, letter * 300) == 200
            wait_for_slots(proxy, min(count, left))
        assert profile_of(proxy)["memory"] == {"slots": 4, "context": 4096} | expected


def said(proxy, messages):
    """Send a turn of one conversation, and wait until it was judged."""
    body = json.dumps({"model": "random", "max_tokens": 4, "messages": messages}).encode()
    count = len(page_of(proxy, "exchanges")["exchanges"])
    assert Site(proxy.url, {"X-Session-ID": "s"}).post("/v1/chat/completions", body).status == 200
    eventually(lambda: len(page_of(proxy, "exchanges")["exchanges"]) > count)


def test_a_belief_outlasts_a_reload_and_not_its_server(tmp_path):
    """A hybrid model's memory was seen to go back to a checkpoint alone; its grounds are shown."""
    server = Llama("qwen35", tmp_path, "inline")
    with contextlib.ExitStack() as stack:
        stack.callback(server.close)
        proxy = stack.enter_context(Proxy(server.url, "--poll", "1"))
        eventually(lambda: page_of(proxy, "data")["upstream"].get("seen"))
        head = [{"role": "system", "content": words(400, 1)}]
        ask, answer = {"role": "user", "content": words(300, 2)}, {"role": "assistant"}
        said(proxy, [*head, ask])
        talk = [*head, ask, answer | {"content": "yes"}]
        said(proxy, [*talk, {"role": "user", "content": words(500, 3)}])
        edited = f"{words(400, 3)} no {words(99, 4)}"
        said(proxy, [*talk, {"role": "user", "content": edited}])
        eventually(lambda: profile_of(proxy)["memory"].get("kind") == "checkpointed")
        grounds = profile_of(proxy)["grounds"]
        assert "with nothing else in the slot: seen once, last 20" in grounds
        assert grounds in page_of(proxy, "data")["upstream"]["words"]["memory"]
        proxy.signal(signal.SIGHUP)
        eventually(lambda: "reloaded: nothing changed" in proxy.log())
        said(proxy, [*head, {"role": "user", "content": words(30, 5)}])
        assert profile_of(proxy)["grounds"] == grounds
        server.restart()
        eventually(lambda: "kind" not in (profile_of(proxy) or {}).get("memory", {"kind": 0}))
