"""A server whose answers do not say what was reused: its counters do, where a request ran alone."""

import json
import re
import threading

import pytest

from .harness import Proxy, whole

BLOCK = 16
COUNTERS = """\
vllm:cache_config_info{{block_size="16",enable_prefix_caching="True"}} 1.0
vllm:prompt_tokens_total{{engine="0",model_name="m"}} {prompt}
vllm:prompt_tokens_cached_total{{engine="0",model_name="m"}} {reused}
vllm:generation_tokens_total{{engine="0",model_name="m"}} {generated}
process_start_time_seconds 1.5e9
"""
MODEL = {"id": "m", "object": "model", "owned_by": "vllm", "max_model_len": 9000}
YES = {"role": "assistant", "content": "Yes."}


class Counting:
    """A vLLM that was started without its flag: it reuses whole blocks, and counts them.

    ``together``: how many requests are read before the first is answered.
    """

    def __init__(self):
        self.together = threading.Barrier(1)
        self._lock = threading.Lock()
        self._blocks = set()
        self._counts = {"prompt": 0, "reused": 0, "generated": 0}

    def __call__(self, peer, received):
        path = received.line.split()[1]
        page = {
            b"/v1/models": lambda: {"object": "list", "data": [MODEL]},
            b"/version": lambda: {"version": "0.32.0"},
            b"/v1/chat/completions": lambda: self._answer(json.loads(received.body)),
        }.get(path)
        if path == b"/metrics":
            counters = COUNTERS.format(**self._counts).encode()
            peer.send(whole(counters, b"Content-Type: text/plain"))
        elif page is None:
            peer.send(whole(b'{"detail":"Not Found"}', status=b"404 Not Found"))
        else:
            peer.send(whole(json.dumps(page()).encode(), b"Content-Type: application/json"))

    def _answer(self, body):
        tokens = tuple(re.findall(r"\w+|[^\w\s]", json.dumps(body["messages"])))
        with self._lock:
            ends = range(BLOCK, len(tokens), BLOCK)
            reused = max((end for end in ends if tokens[:end] in self._blocks), default=0)
            self._blocks.update(tokens[:end] for end in ends)
            for name, count in (("prompt", len(tokens)), ("reused", reused), ("generated", 1)):
                self._counts[name] += count
        self.together.wait(60)
        usage = {"prompt_tokens": len(tokens), "completion_tokens": 1}
        return {
            "object": "chat.completion",
            "model": "m",
            "choices": [{"index": 0, "message": YES, "finish_reason": "stop"}],
            "usage": {**usage, "prompt_tokens_details": None},
        }


class Talk:
    """A conversation through the proxy, each turn longer by two messages."""

    def __init__(self, proxy, name):
        self.name = name
        self.system = f"{name}: be brief. " * 60
        self._proxy = proxy
        self._said = [{"role": "user", "content": "Is it? " * 60}]

    def say(self):
        """Send a turn; return what its line of the log says of reuse, and the verdict."""
        since = self._proxy.mark()
        self.send()
        return self.logged(since)

    def send(self):
        messages = [{"role": "system", "content": self.system}, *self._said]
        body = json.dumps({"model": "m", "messages": messages}).encode()
        fields = (b"Content-Type: application/json", b"X-Session-Id: " + self.name.encode())
        assert self._proxy.ask("/v1/chat/completions", body, *fields).status == 200
        self._said += [YES, {"role": "user", "content": "And is that? " * 20}]

    def logged(self, since):
        line = self._proxy.wait_for(f"/{self.name} ", since)
        found = re.search(r" tok +(\d+% reused|reuse not reported) .* (\S+)$", line)
        assert found, line
        return f"{found[1]}, {found[2]}"


@pytest.fixture
def server(upstream):
    upstream.reset(found := Counting())
    return found


@pytest.fixture
def proxy(server, upstream, tmp_path):
    with Proxy(tmp_path, "--upstream", upstream.url) as found:
        yield found
        assert "Traceback" not in found.output


def test_what_was_reused_is_counted_turn_by_turn(proxy):
    """From the second request on; what was lost is a break, and its cause is named."""
    talk, other = Talk(proxy, "s"), Talk(proxy, "t")
    assert [talk.say(), talk.say()] == ["reuse not reported, cold", "81% reused, ok"]
    talk.system = talk.system.replace("brief", "short")
    since = proxy.mark()
    assert talk.say() == "2% reused, BREAK"
    assert " in /messages/0/content." in proxy.wait_for("system_changed: ", since)
    assert [talk.say(), other.say()] == ["85% reused, ok", "0% reused, cold"]
    assert talk.say() == "87% reused, ok"


def test_where_two_ran_at_once_nothing_was_measured(server, proxy):
    """Neither is called well or broken; those that run alone afterwards are counted again."""
    talks = Talk(proxy, "s"), Talk(proxy, "t")
    for talk in talks:
        talk.say()
    server.together = threading.Barrier(2)
    since = proxy.mark()
    sending = [threading.Thread(target=talk.send) for talk in talks]
    for one in sending:
        one.start()
    for one in sending:
        one.join()
    assert [talk.logged(since) for talk in talks] == ["reuse not reported, -"] * 2
    server.together = threading.Barrier(1)
    assert [talk.say() for talk in talks] == ["84% reused, ok"] * 2
