"""A proxy before several upstreams, each of which a test scripts."""

import contextlib
import json
import socket

import pytest

from tests.proxy.harness import Proxy, Upstream, sound_upstream, whole

BIG = ("big", "big2", "big3")


def spoken(name, *, prompt=1000, reused=0):
    """A script: an answer of the upstream ``name``."""
    body = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "text", "text": name}],
        "usage": {"input_tokens": prompt - reused, "cache_read_input_tokens": reused},
    }

    def answer(peer, received):
        text = json.dumps(body).encode()
        if received.line.startswith(b"GET /health"):
            text = b'{"status": "ok"}'
        peer.send(whole(text, b"Content-Type: application/json"))

    return answer


def refusing(status):
    """A script: every prompt is turned down, and it says that it is well."""

    def answer(peer, received):
        if received.line.startswith(b"GET /health"):
            peer.send(whole(b"{}", b"Content-Type: application/json"))
        else:
            peer.send(whole(b'{"error": "busy"}', status=status))

    return answer


class Pool:
    """The ``upstreams`` by their names, and the ``proxy`` before them."""

    def __init__(self, proxy, upstreams):
        self.proxy = proxy
        self.upstreams = upstreams

    def ask(self, session, turn=1, *, path=b"/v1/messages", **body):
        """Send a turn of ``session``; return the answer."""
        asked = json.dumps(conversation(session, turn) | body).encode()
        named = b"X-Session-ID: " + session.encode()
        return self.proxy.ask(path, asked, b"User-Agent: claude-cli/2", named)

    def said(self, session, turn=1, **more):
        """The name of the upstream that answered."""
        answer = self.ask(session, turn, **more)
        assert answer.status == 200, answer.body
        return json.loads(answer.body)["content"][0]["text"]

    def kill(self, name):
        """Let nobody listen there any more; return what lets somebody, again."""
        upstream = self.upstreams[name]
        upstream.close()
        return upstream.port

    def prompts(self, name):
        """How many prompts came to ``name``."""
        requests = list(self.upstreams[name].requests.queue)
        return sum(
            b'"messages"' in request.body and b"/v1/" in request.line for request in requests
        )


def conversation(session, turn, system="You help.", tools=True):
    messages = [{"role": "user", "content": f"{session} asks " + "something " * 20}]
    for number in range(1, turn):
        messages += [
            {"role": "assistant", "content": f"answer {number}"},
            {"role": "user", "content": f"and {number}?"},
        ]
    body = {"model": "m", "max_tokens": 9, "system": system, "messages": messages}
    tool = {"name": "ls", "description": "lists", "input_schema": {"type": "object"}}
    return body | ({"tools": [tool]} if tools else {})


@pytest.fixture
def pool(tmp_path):
    """Start the pool: ``names`` of upstreams, each with more ``keys`` of its table, and routes."""
    with contextlib.ExitStack() as stack:

        def start(*names, routes="", environ=None, options=(), scripts=None, **keys):
            upstreams, text = {}, ""
            for name in names or BIG:
                found = stack.enter_context(sound_upstream())
                found.reset((scripts or {}).get(name) or spoken(name))
                upstreams[name] = found
                text += (
                    f'[[upstream]]\nname = "{name}"\nurl = "{found.url}"\n{keys.get(name, "")}\n'
                )
            file = tmp_path / "pool.toml"
            file.write_text(text + routes)
            proxy = Proxy(tmp_path, "--config", str(file), *options, **(environ or {}))
            return Pool(stack.enter_context(proxy), upstreams)

        yield start


def revived(port):
    """Another upstream at the ``port`` of one that was closed."""
    return Upstream(socket.create_server(("127.0.0.1", port), backlog=512))
