"""What a session is to find whichever worker its turns come to, and sums that add up."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import sqlite3
import threading

import pytest

from tests.proxy.harness import CHUNKED, Client, Proxy, Upstream, eventually, head, whole
from tests.proxy.test_plugin_faults import install
from tests.proxy.translation.test_translating import MESSAGE as ANTHROPIC
from tests.proxy.translation.test_translating import chat_server, messages_server

from .conftest import USAGE, Crew, chat, relayed

CHAT = b"/v1/chat/completions"
JSON = b"Content-Type: application/json"
MESSAGE = json.dumps(ANTHROPIC).encode()
PINNED = r"""
[[rule]]
name = "first-id"
where = "system"
pattern = 'id=(?P<volatile>\w+)'
pin = true
"""


def answered(peer, _):
    """The upstream has read all of the prompt before."""
    peer.send(whole(json.dumps({"usage": USAGE}).encode(), JSON))


def alternate(crew):
    """Yield clients of the one worker and the other, in turn, for ever."""
    with crew.through(crew.pids[0]) as one, crew.through(crew.pids[1]) as other:
        while True:
            yield one
            yield other


@pytest.fixture
def turns():
    """Clients of alternate workers; closed in the end."""
    made = []

    def start(crew):
        made.append(alternate(crew))
        return made[-1]

    yield start
    for each in made:
        each.close()


USERS = [" ".join(f"word{number}-{each}" for each in range(100)) for number in range(6)]


def test_a_session_that_changes_workers(start, turns):
    """Its turns are judged by those before, and counted on."""
    crew = start(script=answered)
    client = turns(crew)
    for number in range(1, 7):
        body = chat(number, *USERS[:number])
        assert next(client).ask(CHAT, body, JSON).answer().status == 200
    eventually(lambda: crew.proxy.output.count(" tok ") == 6)
    lines = [line for line in crew.proxy.lines if " tok " in line]
    assert [re.search(r"#(\d+) ", line)[1] for line in lines] == list("123456")
    assert [line.rpartition("  ")[2] for line in lines] == ["cold", *["ok"] * 5]
    page = json.loads(crew.page("/_cacheproxy/exchanges"))["exchanges"]
    assert sorted(row["number"] for row in page if row["turn"]) == [1, 2, 3, 4, 5, 6]


def test_turns_without_a_verdict_are_counted_on(start, turns):
    """What is no JSON object belongs to no prompt that can be compared."""
    crew = start(script=answered)
    client = turns(crew)
    for _ in range(4):
        session = b"X-Session-Id: s1"
        assert next(client).ask(CHAT, b"[1]", JSON, session).answer().status == 200
    eventually(lambda: crew.proxy.output.count("client/s1") == 4)
    lines = [line for line in crew.proxy.lines if "client/s1" in line]
    assert [re.search(r"#(\d+) ", line)[1] for line in lines] == list("1234")


def test_a_rule_that_pins_keeps_the_first_value(start, turns, upstream, tmp_path):
    """Whichever worker sent it; in small bodies and in large ones."""
    (tmp_path / "config.toml").write_text(PINNED)
    crew = start("--config", "config.toml", script=answered)
    client = turns(crew)
    for words in (1, 100_000):
        for number in range(1, 7):
            users = [user * words for user in ("a ", "b ", "c ", "d ", "e ", "f ")[:number]]
            body = chat(number, *users, system=f"you are {words} id=a{number}")
            assert next(client).ask(CHAT, body, JSON).answer().status == 200
            sent = json.loads(relayed(upstream, CHAT).body)
            assert sent["n"] == number
            assert sent["messages"][0]["content"] == f"you are {words} id=a1"


def test_a_rule_that_pins_works_without_a_keeper_that_answers(start, upstream, tmp_path):
    """The request waits two seconds, and goes on with what the worker knows itself."""
    (tmp_path / "config.toml").write_text(PINNED)
    crew = start("--config", "config.toml", script=answered)
    with crew.through(crew.pids[0]) as client:
        for number in (1, 2):
            body = chat(number, *USERS[:number], system=f"id=a{number}")
            assert client.ask(CHAT, body, JSON).answer().status == 200
            sent = json.loads(relayed(upstream, CHAT).body)
            assert sent["messages"][0]["content"] == "id=a1"
            if number == 1:
                os.kill(crew.proxy.pid, 19)
        os.kill(crew.proxy.pid, 18)
        crew.proxy.wait_for("the keeper did not answer")


CALL = """{"path":  "a.py", "lines": [1.0, 2.50]}"""
ASKED = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "read it"}]}


def calls(number, streams):
    """A chat server that calls a tool, spelling its arguments in its own way."""
    function = {"name": "read", "arguments": CALL}
    call = {"id": f"call_{number}", "type": "function", "index": 0, "function": function}
    usage = {"prompt_tokens": 9, "completion_tokens": 1}

    def script(peer, received):
        if CHAT not in received.line:
            peer.send(whole(b'{"error": {"message": "File Not Found"}}', status=b"404 Not Found"))
        elif "messages" not in json.loads(received.body):
            peer.send(whole(b'{"error": {"message": "none"}}', JSON, status=b"400 Bad Request"))
        elif not streams:
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
            choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
            answer = {"id": "c", "model": "m", "choices": [choice], "usage": usage}
            peer.send(whole(json.dumps(answer).encode(), JSON))
        else:
            peer.send(CHUNKED)
            delta = {"index": 0, "delta": {"role": "assistant", "tool_calls": [call]}}
            end = {"index": 0, "delta": {}, "finish_reason": "tool_calls"}
            for choices in ([delta], [end]):
                event = {"id": "c", "model": "m", "choices": choices, "usage": usage}
                peer.chunk(b"data: " + json.dumps(event).encode() + b"\n\n")
            peer.chunk(b"data: [DONE]\n\n")
            peer.send(b"0\r\n\r\n")

    return script


@pytest.mark.parametrize("streams", [False, True])
def test_how_a_tool_call_was_spelled_is_known_to_all(start, turns, upstream, streams):
    """The next turn, sent as soon as the answer ends, has the model's own text of the arguments."""
    crew = start("--dialect", "openai")
    client = turns(crew)
    for number in range(8):
        upstream.reset(calls(number, streams))
        body = json.dumps({**ASKED, "stream": streams}).encode()
        assert next(client).ask("/v1/messages", body, JSON).answer().status == 200
        use = {"type": "tool_use", "id": f"call_{number}", "name": "read"}
        use["input"] = {"path": "a.py", "lines": [1, 2.5]}
        result = {"type": "tool_result", "tool_use_id": f"call_{number}", "content": "x"}
        messages = [
            *ASKED["messages"],
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [result]},
        ]
        while not upstream.requests.empty():
            upstream.requests.get()
        upstream.reset(calls(number, streams))
        again = json.dumps({**ASKED, "stream": streams, "messages": messages}).encode()
        assert next(client).ask("/v1/messages", again, JSON).answer().status == 200
        sent = json.loads(relayed(upstream, CHAT).body)
        (message,) = (m for m in sent["messages"] if m["role"] == "assistant")
        assert message["tool_calls"][0]["function"]["arguments"] == CALL, number
        if number % 2:
            next(client)  # so that each is the one that hears of it, and the one that asks


def test_all_sums_add_up(start, tmp_path):
    """The log, the metrics, the totals and the capture have each exchange, once."""
    state = tmp_path / "state"
    arguments = ("--state-dir", str(state), "--capture", str(tmp_path / "captures"))
    crew = start(*arguments, script=answered)
    count = 40

    def agent(number):
        with Client(crew.proxy.address) as client:
            for turn in range(1, 6):
                body = chat(turn, *USERS[:turn], system=f"agent {number}")
                fields = (JSON, b"X-Session-Id: s%d" % number)
                assert client.ask(CHAT, body, *fields).answer().status == 200

    threads = [threading.Thread(target=agent, args=(number,)) for number in range(count // 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    eventually(lambda: crew.proxy.output.count(" tok ") == count)
    assert len(re.findall(r"  cold$", crew.proxy.output, re.MULTILINE)) == count // 5
    assert len(re.findall(r"  ok$", crew.proxy.output, re.MULTILINE)) == count - count // 5
    metrics = crew.page("/_cacheproxy/metrics").decode()
    found = re.findall(r"^cacheproxy_requests_total\{.*\} (\S+)$", metrics, re.MULTILINE)
    assert sum(map(float, found)) == count
    shown = json.loads(crew.page("/_cacheproxy/health"))["workers"]
    assert sum(worker["exchanges"] for worker in shown) == count
    crew.proxy.signal(15)
    assert crew.proxy.ended() == 0
    (file,) = state.glob("*.db")
    with sqlite3.connect(file) as connection:
        assert connection.execute("SELECT count(*) FROM exchanges").fetchone() == (count,)
    lines = [
        json.loads(line)
        for file in (tmp_path / "captures").glob("*.jsonl")
        for line in file.read_text().splitlines()
    ]
    assert len(lines) == count
    assert all(USERS[0] in json.dumps(line) for line in lines)


FAULTY = '''
"""It fails."""
import sys

from cacheproxy import Client, CodeRule, hookimpl


@hookimpl
def cacheproxy_client():
    return Client("*")


@hookimpl
def cacheproxy_rules():
    return [CodeRule("fails", "it fails", fail)]


def fail(request, previous):
    print("printed in a worker")
    raise ValueError("kanarienvogel")


@hookimpl
def cacheproxy_exchange_finished(exchange):
    print("seen", exchange.number, exchange.session.id, file=sys.stderr)
    raise KeyError("kanarienvogel")
'''


def test_failures_of_plugins_add_up(start, turns, tmp_path):
    """Rules fail in workers, observers in the keeper; a worker that dies takes no count away."""
    install(tmp_path / "site", "faulty", FAULTY)
    path = os.pathsep.join([str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")])
    crew = start(script=answered, PYTHONPATH=path)
    client = turns(crew)
    for number in range(1, 5):
        body = chat(number, *USERS[:number])
        assert next(client).ask(CHAT, body, JSON, b"X-Session-Id: s").answer().status == 200
    failures = {"fails": 4, "faulty: cacheproxy_exchange_finished": 4}

    def found():
        return {name: count["failed"] for name, count in crew.health()["failures"].items()}

    eventually(lambda: found() == failures)
    os.kill(crew.pids[0], 9)
    crew.proxy.wait_for("takes its place")
    client.close()
    eventually(lambda: len(crew.workers()) == 2)
    (new,) = (pid for pid in crew.workers() if pid not in crew.pids)
    with crew.through(new) as client:
        body = chat(5, *USERS[:5])
        assert client.ask(CHAT, body, JSON, b"X-Session-Id: s").answer().status == 200
    eventually(lambda: found() == dict.fromkeys(failures, 5))
    output = crew.proxy.output
    assert output.count("warn: rule fails was left out of a request: ValueError") == 5
    assert [f"seen {number} s" in output for number in range(1, 6)] == [True] * 5
    assert "kanarienvogel" not in output


@pytest.mark.parametrize("at_once", [True, False])
def test_connections_are_shared_evenly(start, at_once):
    """Those that come in a burst, and those that come one by one and stay."""
    crew = start()
    with contextlib.ExitStack() as stack:

        def counts():
            return [worker["connections"] for worker in crew.health()["workers"]]

        for number in range(1, 33 if at_once else 9):
            stack.enter_context(Client(crew.proxy.address))
            if not at_once:
                eventually(lambda number=number: sum(counts()) >= number)
        eventually(lambda: sum(counts()) >= (32 if at_once else 8))
        assert max(counts()) <= (22 if at_once else 6)


def test_connections_of_all_are_counted(start):
    """Those open, and those with an exchange under way; our own pages are none."""

    def begins(peer, _):
        peer.send(head(b"Content-Length: 9"))
        peer.wait_closed()

    crew = start(script=begins)

    def gauge(name):
        page = crew.page("/_cacheproxy/metrics").decode()
        return float(re.search(rf"^{name}(?:{{}})? (\S+)$", page, re.MULTILINE)[1])

    def counts():
        names = ("cacheproxy_connections", "cacheproxy_open_requests")
        return [gauge(name) for name in names]

    with crew.through(crew.pids[0]) as one, crew.through(crew.pids[1]) as other:
        for client in (one, other):
            client.ask("/x", b"{}").begin()
        with crew.through(crew.pids[0]) as watching:
            watching.ask("/_cacheproxy/live", method=b"GET").begin()
            eventually(lambda: counts()[1] == 2)
            eventually(lambda: 3 <= counts()[0] <= 5)
    eventually(lambda: counts()[1] == 0)


def test_all_hear_that_the_upstream_was_down(tmp_path):
    """What one of them sees, the others know: another server may have taken its place."""
    upstream = Upstream()
    upstream.reset(chat_server)
    arguments = ("--workers", "2", "--upstream", upstream.url)
    with Proxy(tmp_path, *arguments) as proxy:
        crew = Crew(proxy)
        crew.find()
        with crew.through(crew.pids[0]) as one, crew.through(crew.pids[1]) as other:

            def answers(*clients):
                asked = [client.ask("/v1/messages", MESSAGE, JSON).answer() for client in clients]
                return [(answer.status, json.loads(answer.body)["type"]) for answer in asked]

            assert answers(one, other) == [(200, "message")] * 2  # both have learned
            upstream.close()
            assert [status for status, _ in answers(one)] == [502]
            address = ("127.0.0.1", upstream.port)
            upstream = Upstream(socket.create_server(address))
            upstream.reset(messages_server)
            eventually(lambda: answers(other) == [(200, "message")])
            assert answers(one) == [(200, "message")]
    upstream.close()
