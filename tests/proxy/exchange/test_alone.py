"""A conversation that is alone at its server costs as much with ``--crowd auto`` as with off."""

import json
from pathlib import Path

import pytest

from tests.proxy.exchange.test_admission import SGLANG, llama
from tests.proxy.exchange.test_holding import CHAT, TYPE, session
from tests.proxy.harness import Client, sound_upstream, whole

TREE = Path(__file__).parents[3]
ROOMS = f"{TREE}/cacheproxy/core/kinds/order.py", f"{TREE}/cacheproxy/proxy/exchange/"
"""Where requests are admitted and sent. Elsewhere timers have calls, too."""
TURNS, WARM_UP = 6, 3
"""The first request is looked at once: places may be scarce."""


def answers(pages):
    said = {"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 900, "completion_tokens": 1, "total_tokens": 901}
    usage["prompt_tokens_details"] = {"cached_tokens": 800}
    answer = json.dumps({"object": "chat.completion", "choices": [said], "usage": usage}).encode()

    def script(peer, received):
        page = answer if received.body else pages.get(received.line.rpartition(b" ")[0])
        peer.send(whole(page, TYPE) if page else whole(b"{}", status=b"404 Not Found"))

    return script


def settle(port):
    """A page of its own has all that has finished logged before it is made."""
    client = Client(("127.0.0.1", port)).ask("/_cacheproxy/exchanges", None, method=b"GET")
    assert client.answer().status == 200


@pytest.mark.slow
@pytest.mark.parametrize("pages", [SGLANG, llama(1), llama(4)], ids=["sglang", "1 slot", "4 slots"])
def test_who_is_alone_is_sent_with_the_same_bytes_and_calls(tmp_path, monkeypatch, pages):
    monkeypatch.syspath_prepend(TREE / "benchmarks")
    from same.counting import COUNTING, counted
    from same.drive import Proxy

    def run(mode):
        """The bodies that came, and the calls by function: those of a request or its record."""
        options, folder = ("--state-dir", "none", "--crowd", mode), tmp_path / mode
        folder.mkdir()
        with sound_upstream() as upstream:
            upstream.reset(answers(pages))
            with Proxy(TREE, folder, upstream.port, options, COUNTING["calls"]) as proxy:
                before, messages = None, [{"role": "system", "content": "Be brief. " * 300}]
                for turn in range(TURNS):
                    if turn == WARM_UP:
                        settle(proxy.port)
                        before = counted(proxy.pid, folder)
                    messages += [{"role": "user", "content": f"go on, {turn}"}]
                    body = json.dumps({"model": "m", "messages": messages}).encode()
                    client = Client(("127.0.0.1", proxy.port)).ask(CHAT, body, session())
                    assert client.answer().status == 200
                    messages += [{"role": "assistant", "content": "ok"}]
                settle(proxy.port)
                calls = counted(proxy.pid, folder) - before
            came = [upstream.requests.get().body for _ in range(upstream.requests.qsize())]
            log = (folder / "log").read_text()
        assert "waited" not in log
        return [*filter(None, came)], {
            name: n for name, n in calls.items() if name.startswith(ROOMS)
        }

    (sent, calls), (other, others) = run("off"), run("auto")
    assert sent == other
    differ = {name for name in {*calls, *others} if calls.get(name) != others.get(name)}
    assert not {(name, calls.get(name), others.get(name)) for name in differ}
