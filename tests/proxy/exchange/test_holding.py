"""A client that leaves during the prefill, and its retry: one request upstream for both."""

import json
import threading
import time

import pytest

from cacheproxy.core.dialects.stream import CUT
from cacheproxy.proxy.exchange.holding import patience_of
from tests.proxy.harness import (
    CHUNKED,
    LAST,
    TIMEOUT,
    Client,
    Proxy,
    chunk,
    eventually,
    head,
    whole,
)

CHAT = "/v1/chat/completions"
TYPE = b"Content-Type: application/json"


def event(**more):
    return b"data: " + json.dumps(more).encode() + b"\n\n"


def word(text, finish=None, **more):
    choice = {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": finish}
    made = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return event(**made, choices=[choice], **more)


USAGE = {"prompt_tokens": 900, "completion_tokens": 2, "total_tokens": 902}
EVENTS = word("Hel") + word("lo", "stop", usage=USAGE) + b"data: [DONE]\n\n"
ANSWER = chunk(EVENTS) + LAST
WHOLE = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}
    ],
    "usage": USAGE,
}


COUNTED = {"include_usage": True}
MODELS = json.dumps({"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 9000}]}).encode()
VLLM = {b"GET /version": b'{"version":"0.11"}', b"GET /v1/models": MODELS}
LLAMA = {
    b"GET /props": b'{"total_slots":1,"model_path":"m","build_info":"b7000"}',
    b"GET /v1/models": b'{"data":[{"id":"m","owned_by":"llamacpp"}]}',
}
PROGRESS = {"prompt_progress": {"total": 900, "cache": 0, "processed": 100}}


class Prefill:
    """A server that says ``first`` at once, and ``then`` once it may go on.

    ``prompts`` counts those that came, ``closed`` those whose connection the proxy has closed.
    """

    def __init__(self, first=CHUNKED, then=ANSWER, pages=()):
        self.pages = dict(pages)
        self.first, self.then = first, then
        self.go_on, self.begun = threading.Event(), threading.Semaphore(0)
        self.closed = threading.Semaphore(0)
        self.prompts = 0

    def __call__(self, peer, received):
        if not received.values(b"x-session-id"):  # the proxy asks what server this is
            page = self.pages.get(received.line.rpartition(b" ")[0])
            peer.send(whole(page, TYPE) if page else whole(b"{}", status=b"404 Not Found"))
            return
        self.prompts += 1
        peer.send(self.first)
        self.begun.release()
        peer.sock.settimeout(0.02)
        while not self.go_on.is_set():
            try:
                if not peer.sock.recv(1):
                    self.closed.release()
                    return
            except TimeoutError:
                continue
            except OSError:
                self.closed.release()
                return
        peer.sock.settimeout(TIMEOUT)
        peer.send(self.then)


def prompt(text="Hi", *, stream=True, **more):
    messages = [{"role": "user", "content": text}]
    return json.dumps({"model": "m", "messages": messages, "stream": stream, **more}).encode()


def session(name=b"one"):
    return b"X-Session-Id: " + name


def left(proxy, server, body=None, *fields, path=CHAT):
    """Send a request, and leave once the server is at it."""
    client = Client(proxy.address).ask(path, body or prompt(), *(fields or (session(),)))
    assert server.begun.acquire(timeout=TIMEOUT)
    mark = len(proxy.lines)
    time.sleep(0.05)
    client.close()
    proxy.wait_for("CLIENT LEFT", mark)


def asks(proxy, body=None, *fields, path=CHAT):
    """Send a request, whose answer is awaited later."""
    return Client(proxy.address).ask(path, body or prompt(), *(fields or (session(),)))


def answered(proxy, server, *request, path=CHAT, after=0.0):
    """The answer to a request that is sent ``after`` so many seconds before the server goes on."""
    client = asks(proxy, *request, path=path)
    time.sleep(after)
    server.go_on.set()
    return client.answer()


@pytest.mark.parametrize("first", [b"", CHUNKED, CHUNKED + chunk(b": wait\n\n")], ids=len)
def test_a_retry_gets_the_answer_from_its_beginning(start, first):
    """Whether the head had come or not; what stood before the answer comes again."""
    server = Prefill(first, b"" if first else CHUNKED)
    server.then += ANSWER
    proxy = start(server)
    left(proxy, server)
    answer = answered(proxy, server, after=0.1)
    assert (answer.status, answer.end) == (200, "whole")
    assert answer.body == (b": wait\n\n" if b"wait" in first else b"") + EVENTS
    assert server.prompts == 1
    assert "joined" in proxy.wait_for("900 tok")


def test_what_opened_the_answer_counts_for_the_retry_alone(start):
    """Messages' usage of the prompt comes first: two turns with it would be a loss."""
    usage = {"input_tokens": 900, "cache_read_input_tokens": 0, "output_tokens": 1}
    opening = {"id": "m1", "type": "message", "role": "assistant", "content": [], "usage": usage}
    server = Prefill(CHUNKED + chunk(b"event: message_start\n" + event(
        type="message_start", message=opening | {"model": "m", "stop_reason": None})))  # fmt: skip
    server.then = chunk(b"event: message_stop\n" + event(type="message_stop")) + LAST
    proxy = start(server)
    body = prompt("Hi there, " * 500, max_tokens=9)
    left(proxy, server, body, path="/v1/messages")
    client = asks(proxy, body, path="/v1/messages")
    server.go_on.set()
    assert b"message_start" in client.answer().body
    assert "tokens not reported" in proxy.wait_for("held for a retry")
    assert "BREAK" not in proxy.wait_for("joined after")
    assert "900 tok" in proxy.wait_for("joined after")


@pytest.mark.parametrize(
    ("first", "again"),
    [
        (
            prompt(temperature=0, stream_options={"include_usage": True}),
            dict(reversed(json.loads(prompt(temperature=0, client_metadata={"a": 1})).items())),
        ),
        (prompt("Hi \ud83d"), json.loads(prompt("Hi \ud83d", client_metadata={"a": 1}))),
    ],
    ids=["members in another order", "a character that was cut in half"],
)
def test_it_may_be_spelled_in_another_way_and_differ_in_transport(start, first, again):
    """Half of a pair has no spelling in UTF-8: agents in JavaScript send it so."""
    server = Prefill()
    proxy = start(server)
    left(proxy, server, first)
    assert answered(proxy, server, json.dumps(again).encode()).body == EVENTS
    assert server.prompts == 1


@pytest.mark.parametrize("settings", [(), ("--ping-after", "0.1")])
def test_without_stream_it_gets_the_whole_answer(start, settings):
    """What keeps it waiting is no event, though the upstream streams: blanks, as JSON may have."""
    server = Prefill()
    proxy = start(server, *settings)
    left(proxy, server, prompt(stream_options=COUNTED))
    answer = answered(proxy, server, prompt(stream=False), after=0.5 * bool(settings))
    assert (answer.status, answer.end, json.loads(answer.body)) == (200, "whole", WHOLE)
    assert answer.values(b"content-type") == [b"application/json"]
    assert answer.body.startswith(b"  ") == bool(settings)
    assert server.prompts == 1


def test_a_stream_without_its_end_is_no_whole_answer(start):
    server = Prefill(CHUNKED, chunk(word("Hel")) + LAST)
    proxy = start(server)
    left(proxy, server, prompt(stream_options=COUNTED))
    assert answered(proxy, server, prompt(stream=False)).end != "whole"
    assert CUT in proxy.wait_for("UPSTREAM FAILED")


@pytest.mark.parametrize("first", [b"", head(TYPE, b"Transfer-Encoding: chunked")], ids=len)
def test_with_stream_it_gets_the_events_of_a_whole_answer(start, first):
    body = json.dumps(WHOLE).encode()
    server = Prefill(first, chunk(body) + LAST if first else whole(body, TYPE))
    proxy = start(server)
    left(proxy, server, prompt(stream=False))
    answer = answered(proxy, server)
    assert (answer.status, answer.end) == (200, "whole")
    assert answer.values(b"content-type") == [b"text/event-stream"]
    assert b"Hello" in answer.body
    assert server.prompts == 1


MINE = b"Authorization: Bearer one"
KEYS = (b"Authorization: Bearer two", b"X-Api-Key: two", b"X-Forwarded-User: two")
WENT_ON, NEEDED = "its conversation went on", "another conversation needs the server"


@pytest.mark.parametrize(
    ("first", "then", "why"),
    [
        ((), (prompt("Another"), session()), WENT_ON),
        ((), (prompt(), session(b"two")), NEEDED),
        ((), (prompt(temperature=1), session()), WENT_ON),
        ((prompt(top_k=1), session()), (prompt(top_k=True), session()), WENT_ON),
        *(
            ((prompt(), session(), MINE), (prompt(), session(), key), "")
            for key in (*KEYS, b"Anthropic-Beta: two")
        ),
    ],
    ids=["message", "conversation", "setting", "true is not 1", "bearer", "key", "user", "beta"],
)
def test_anything_else_ends_it_at_once(start, first, then, why):
    """Other credentials are somebody else, whatever session is named."""
    server = Prefill()
    proxy = start(server)
    left(proxy, server, *first)
    with asks(proxy, *then):
        assert server.closed.acquire(timeout=TIMEOUT)
        assert why in proxy.wait_for("held request closed")
        assert server.begun.acquire(timeout=TIMEOUT)
        assert server.prompts == 2


def test_what_takes_no_slot_does_not_end_it(start):
    server = Prefill()
    proxy = start(server)
    left(proxy, server)
    proxy.ask("/v1/models", None, method=b"GET")
    proxy.ask("/v1/messages/count_tokens", prompt())
    assert answered(proxy, server).body == EVENTS
    assert server.prompts == 1


UNCOUNTED = word("Hello", "stop")
APART = word("Hello", "stop", usage=None) + event(choices=[], usage=USAGE) + b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    ("first", "then", "second", "got"),
    [
        (prompt(stream_options=COUNTED), APART, prompt(), UNCOUNTED + b"data: [DONE]\n\n"),
        (prompt(stream_options=COUNTED), APART, prompt(stream_options=COUNTED), APART),
        (prompt(), EVENTS, prompt(stream_options=COUNTED), None),
        (prompt(), EVENTS, prompt(stream=False), None),
        (prompt(stream_options=COUNTED | {"continuous_usage_stats": True}), EVENTS, prompt(), None),
    ],
    ids=["it wants no usage", "as before", "it wants usage", "a whole has usage", "other usage"],
)
def test_it_gets_usage_as_it_asks_or_its_own_answer(start, first, then, second, got):
    server = Prefill(CHUNKED, chunk(then) + LAST)
    proxy = start(server)
    left(proxy, server, first)
    answer = answered(proxy, server, second)
    assert server.prompts == 1 + (got is None)
    assert answer.end == "whole"
    assert got is None or answer.body.replace(b" ", b"") == got.replace(b" ", b"")


@pytest.mark.parametrize("asks_for_it", [True, False])
def test_the_events_of_a_whole_answer_have_usage_as_asked(start, asks_for_it):
    server = Prefill(b"", whole(json.dumps(WHOLE).encode(), TYPE))
    proxy = start(server)
    left(proxy, server, prompt(stream=False))
    more = {"stream_options": COUNTED} if asks_for_it else {}
    events = answered(proxy, server, prompt(**more)).body.split(b"\n\n")
    assert [b'"usage"' in one for one in events].count(True) == asks_for_it
    assert (b'"choices":[]' in events[-3]) == asks_for_it


def test_all_that_leave_together_come_home(start):
    """Subagents in one session, two of them alike, and a title in between."""
    server = Prefill()
    proxy = start(server)
    texts = ("a", "b", "c", "c")
    clients = [asks(proxy, prompt(text)) for text in texts]
    for _ in clients:
        assert server.begun.acquire(timeout=TIMEOUT)
    for client in clients:
        client.close()
    eventually(lambda: sum("CLIENT LEFT" in line for line in proxy.lines) == len(texts))
    server.first = CHUNKED + ANSWER
    assert asks(proxy, prompt("A title?")).answer().body == EVENTS
    clients = [asks(proxy, prompt(text)) for text in texts]
    time.sleep(0.2)
    server.go_on.set()
    assert [client.answer().body for client in clients] == [EVENTS] * len(texts)
    assert server.prompts == len(texts) + 1


def test_what_is_held_has_a_common_limit(start):
    """Two bodies of more than half of it; and answers wait at their servers."""
    server = Prefill()
    proxy = start(server, "--held-memory", "1")
    left(proxy, server, prompt("x " * 300_000))
    left(proxy, server, prompt("y " * 300_000), session(b"two"))
    assert "too much is held" in proxy.wait_for("held request closed")
    assert answered(proxy, server, prompt("y " * 300_000), session(b"two")).body == EVENTS
    assert server.prompts == 2


def test_it_is_shown_until_it_ends(start):
    server = Prefill()
    proxy = start(server)
    left(proxy, server)
    (held,) = proxy.page("data")["prefills"]
    assert (held["session"], held["turn"], held["held"]) == ("client/one", 1, True)
    begun = time.monotonic()
    with asks(proxy, prompt("Another")):
        proxy.wait_for("held request closed")
        (other,) = proxy.page("data")["prefills"]
        assert other["seconds"] <= time.monotonic() - begun


def test_it_ends_with_its_time(start):
    server = Prefill()
    proxy = start(server, "--hold", "0.3")
    before = time.monotonic()
    left(proxy, server)
    assert server.closed.acquire(timeout=TIMEOUT)
    assert time.monotonic() - before >= 0.3
    assert "no retry came" in proxy.wait_for("held request closed")


def test_a_remote_one_is_not_held(upstream, tmp_path):
    """Its tokens may have a price, and nobody may want them."""
    text = f'[[upstream]]\nname = "far"\nurl = "{upstream.url}"\nremote = true\n'
    (tmp_path / "config.toml").write_text(text)
    server = Prefill()
    upstream.reset(server)
    with Proxy(tmp_path, "--config", "config.toml") as proxy:
        client = asks(proxy)
        assert server.begun.acquire(timeout=TIMEOUT)
        client.close()
        assert server.closed.acquire(timeout=TIMEOUT)
        assert "held" not in proxy.wait_for("CLIENT LEFT")


@pytest.mark.parametrize("settings", [("--hold", "0"), ()])
def test_after_the_first_token_or_without_hold_it_ends_at_once(start, settings):
    server = Prefill(CHUNKED if settings else CHUNKED + chunk(word("Hel")))
    proxy = start(server, *settings)
    client = asks(proxy)
    assert server.begun.acquire(timeout=TIMEOUT)
    if not settings:
        next(client.pieces(client.begin()))
    client.close()
    assert server.closed.acquire(timeout=TIMEOUT)
    assert "held" not in proxy.wait_for("CLIENT LEFT")


@pytest.mark.parametrize("times", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_who_joins_may_leave_and_join_again(start, times):
    """Each time the hold begins anew."""
    server = Prefill()
    proxy = start(server)
    left(proxy, server)
    files = len(proxy.open_files())
    for _ in range(times):
        mark = len(proxy.lines)
        client = asks(proxy)
        time.sleep(0.05)
        client.close()
        proxy.wait_for("CLIENT LEFT", mark)
    assert len(proxy.open_files()) <= files + 1
    assert answered(proxy, server).body == EVENTS
    assert server.prompts == 1


def test_what_is_collected_can_be_left_until_its_end(start):
    """Nothing of it has gone down yet, though some has come."""
    rest = threading.Event()

    class Halfway(Prefill):
        def __call__(self, peer, received):
            super().__call__(peer, received)
            if self.go_on.is_set() and rest.wait(TIMEOUT):
                peer.send(chunk(EVENTS.removeprefix(word("Hel"))) + LAST)

    server = Halfway(then=chunk(word("Hel")))
    proxy, body = start(server), prompt(stream=False)
    left(proxy, server, prompt(stream_options=COUNTED))
    mark, client = len(proxy.lines), asks(proxy, body)
    time.sleep(0.1)
    server.go_on.set()
    time.sleep(0.1)
    client.close()
    assert "held for a retry" in proxy.wait_for("CLIENT LEFT", mark)
    client = asks(proxy, body)
    rest.set()
    assert json.loads(client.answer().body) == WHOLE
    assert server.prompts == 1


def test_what_was_answered_meanwhile_waits_for_the_retry(start):
    server = Prefill()
    proxy = start(server)
    left(proxy, server)
    server.go_on.set()
    time.sleep(0.2)
    assert asks(proxy).answer().body == EVENTS
    assert server.prompts == 1


@pytest.mark.parametrize(
    ("first", "then", "why"),
    [
        (CHUNKED, b"nonsense", "the upstream failed"),
        (b"", whole(b"{}", TYPE, status=b"503 Busy"), "status 503"),
    ],
    ids=["it dies", "it is busy"],
)
def test_an_upstream_that_fails_meanwhile_is_asked_anew(start, first, then, why):
    server = Prefill(first, then)
    proxy = start(server)
    left(proxy, server)
    server.go_on.set()
    assert why in proxy.wait_for("held request closed")
    server.then = ANSWER if first else CHUNKED + ANSWER
    assert asks(proxy).answer().body == EVENTS
    assert server.prompts == 2


@pytest.mark.parametrize("waits", [True, False])
def test_beside_others_it_goes_on_if_they_do_not_wait(start, waits):
    """A server that works at several prompts may read what is held before all others."""
    server = Prefill(pages=VLLM)
    proxy = start(server, CACHEPROXY_POLL="1")
    left(proxy, server)
    server.first = CHUNKED if waits else CHUNKED + chunk(word("Hel"))
    with asks(proxy, prompt(), session(b"two")):
        assert server.begun.acquire(timeout=TIMEOUT)
        if waits:
            assert "needs the server" in proxy.wait_for("held request closed")
            assert server.closed.acquire(timeout=TIMEOUT)
            return
        time.sleep(1.2)
        assert answered(proxy, server).body == EVENTS
        assert server.prompts == 2


def test_who_waits_already_is_not_kept_waiting(start):
    """It was there when the client left."""
    server = Prefill(pages=VLLM)
    proxy = start(server, CACHEPROXY_POLL="1")
    with asks(proxy, prompt(), session(b"two")):
        assert server.begun.acquire(timeout=TIMEOUT)
        left(proxy, server)
        assert server.closed.acquire(timeout=TIMEOUT)
        assert "needs the server" in proxy.wait_for("held request closed")


@pytest.mark.parametrize(
    ("took", "is_full", "seconds"),
    [(0.5, True, 1), (100, True, 1), (300, True, 3), (900, True, 5), (0.5, False, 5)],
)
def test_a_long_prefill_is_worth_some_seconds_more(took, is_full, seconds):
    """Qwen Code's retry comes a second after the hang-up."""
    assert patience_of(took, is_full=is_full) == seconds


def test_a_retry_after_a_reload_joins(start):
    server = Prefill()
    proxy = start(server)
    left(proxy, server)
    proxy.signal(1)
    proxy.wait_for("reloaded")
    assert answered(proxy, server).body == EVENTS
    assert server.prompts == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [("hold = 60", "hold = 0"), ("{url}", "http://127.0.0.1:9")],
    ids=["nothing is held any more", "another upstream"],
)
def test_what_a_reload_changes_holds_for_what_is_held(upstream, tmp_path, before, after):
    text = f'hold = 60\nupstream = "{upstream.url}"\n'
    (tmp_path / "config.toml").write_text(text)
    server = Prefill()
    upstream.reset(server)
    with Proxy(tmp_path, "--config", "config.toml") as proxy:
        left(proxy, server)
        (tmp_path / "config.toml").write_text(text.replace(before.format(url=upstream.url), after))
        proxy.signal(1)
        assert "the configuration has changed" in proxy.wait_for("held request closed")
        assert server.closed.acquire(timeout=TIMEOUT)


def test_a_proxy_that_stops_holds_nothing(start):
    server = Prefill()
    proxy = start(server, "--grace", "30")
    left(proxy, server)
    before = time.monotonic()
    proxy.signal(15)
    assert server.closed.acquire(timeout=TIMEOUT)
    assert proxy.ended() == 0
    assert time.monotonic() - before < 20


def test_who_leaves_a_proxy_that_stops_is_not_held(start):
    """Nobody could ask again. It waits for the answers of others."""
    server = Prefill(pages=VLLM)
    proxy = start(server, "--grace", "60", CACHEPROXY_POLL="1")
    client = asks(proxy)
    assert server.begun.acquire(timeout=TIMEOUT)
    server.first = CHUNKED + chunk(word("Hel"))
    other = asks(proxy, prompt(), session(b"two"))
    assert server.begun.acquire(timeout=TIMEOUT)
    time.sleep(0.1)
    proxy.signal(15)
    proxy.wait_for("stopping")
    client.close()
    assert server.closed.acquire(timeout=30)
    server.go_on.set()
    assert other.answer().end == "whole"


def test_200_are_held_and_nothing_is_left(start):
    server = Prefill()
    proxy = start(server, "--hold", "2")
    files = len(proxy.open_files())
    clients = [asks(proxy, prompt(f"{n} " * 500), session(b"s%d" % n)) for n in range(200)]
    for _ in clients:
        assert server.begun.acquire(timeout=TIMEOUT)
    for client in clients:
        client.close()
    for _ in clients:
        assert server.closed.acquire(timeout=TIMEOUT)
    eventually(lambda: len(proxy.open_files()) <= files + 2)
