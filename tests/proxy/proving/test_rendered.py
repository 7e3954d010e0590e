"""What a server rendered is asked for, off the reactor's thread, and compared.

Pages that make no sense, are too large or hang prove nothing, and nobody fails for them.
"""

import json
import threading

import pytest
from msgspec.structs import replace
from twisted.internet.defer import CancelledError, Deferred, fail
from twisted.internet.error import ConnectionLost
from twisted.internet.error import ConnectionRefusedError as RefusedError

from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import Rewrite
from cacheproxy.core.prompt.request import Request
from cacheproxy.proxy.probing import proving as module
from tests.core.templates import inline, thinking
from tests.proxy.harness import head, sound_upstream

from .shown import (
    AFTER,
    BEFORE,
    CANARY,
    LLAMA,
    METRICS,
    SYSTEM,
    VLLM,
    WORD,
    counters,
    llama,
    proving_of,
    run,
    says,
    tokens_of,
    turn,
)
from .turned import HandTurned, proving_at


@pytest.fixture
def ask(reactor):
    """Ask a server with these pages for a proof; return it, and what was asked."""

    def ask(pages, of=None, page=LLAMA):
        proving = proving_of(reactor, pages, page=page)
        (proof,) = run(proving, proving.prove(of or turn()))
        return proof, proving.asker.asked

    return ask


def test_what_a_template_did_is_told_by_the_two_prompts(ask):
    proof, asked = ask(llama())
    assert proof.rewrite is Rewrite.THINKING
    assert 0 < proof.shared < proof.now < proof.before
    assert [request.path for request in asked] == [LLAMA, VLLM] * 2
    assert "model" in asked[0].json
    agreed, _ = ask(llama(inline), turn(inline))
    assert (agreed.shared, agreed.rewrite) == (agreed.before, None)


def test_vllm_renders_and_counts_in_one(ask):
    """Its tokens come with their texts; it knows reasoning by its newer name."""

    def as_rendered(message):
        return {**message, "reasoning_content": message.get("reasoning", "")}

    def tokenizes(body):
        assert body["return_token_strs"] is True
        text = thinking([as_rendered(each) for each in body["messages"]], body.get("tools"))
        spelled = [word.replace(" ", "Ġ").replace("\n", "Ċ") for word in WORD.findall(text)]
        return {"tokens": tokens_of(text), "token_strs": spelled}

    proof, asked = ask({VLLM: says(tokenizes)}, page=VLLM)
    assert proof.rewrite is Rewrite.THINKING
    assert [request.path for request in asked] == [VLLM] * 2


def test_keys_go_along_and_nothing_else(ask):
    """The page may want the same key as the request."""
    keys = ((b"Authorization", b"Bearer key"), (b"X-Api-Key", b"key"))
    _, asked = ask(llama(), turn(headers=(*keys, (b"Cookie", b"a=b"), (b"X-Session-Id", b"s"))))
    assert [request.headers for request in asked] == [
        ((b"Content-Type", b"application/json"), *keys)
    ] * 4


def test_a_request_that_is_too_large_or_no_conversation_is_not_rendered(ask):
    """It would take the server too long; or it has no messages."""
    long = {"role": "user", "content": "x" * (4 << 20)}
    for of in (turn(before=(SYSTEM, long)), turn(after=(SYSTEM, long))):
        proof, asked = ask(llama(), of)
        assert proof is None
        assert not any(len(request.body) > (1 << 20) for request in asked)
    known = turn()
    other = known.before._replace(request=Request("POST", "/v1/completions", (), b"{}"))
    for page, of in (("", known), ("/api/show", known), (LLAMA, replace(known, before=other))):
        assert ask(llama(), of, page) == (None, [])


def test_nothing_large_is_read_on_the_reactors_thread(ask, monkeypatch):
    """Nor is it compared there: it would keep others waiting."""
    threads = {}

    def watched(work):
        def watch(*arguments):
            threads.setdefault(work.__name__, set()).add(threading.current_thread())
            return work(*arguments)

        return watch

    class Json:
        loads, dumps = watched(json.loads), watched(json.dumps)

    monkeypatch.setattr(module, "json", Json)
    for name in ("proof_of", "chat_of", "array"):
        monkeypatch.setattr(module, name, watched(getattr(module, name)))
    large = {"role": "system", "content": "It is a long story. " * 1_400}
    proof, _ = ask(llama(), turn(before=(large, *BEFORE[1:]), after=(large, *AFTER[1:])))
    assert proof.rewrite is Rewrite.THINKING
    assert set(threads) == {"loads", "dumps", "proof_of", "chat_of", "array"}
    assert threading.current_thread() not in set.union(*threads.values())


ERROR = b'{"error":"%s"}' % CANARY.encode()
NONSENSE = {
    "missing": (404, ERROR),
    "an error": (500, ERROR),
    "nothing, or broken off": (200, b""),
    "no JSON": (200, b"<html>%s</html>" % CANARY.encode()),
    "no text": (200, b'\xff\xfe{"prompt":"x"}'),
    "a list": (200, b"[[]]"),
    "null": (200, b'{"prompt":null,"tokens":null}'),
    "numbers": (200, b'{"prompt":7,"tokens":7}'),
    "deep": (200, b"[" * 100_000),
    "closed": lambda _: fail(ConnectionLost()),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_a_page_that_makes_no_sense_proves_nothing(ask, reactor, name):
    """Nobody fails for it, and what it says is not logged. No start is better than a wrong one."""
    answer = NONSENSE[name]
    for pages in (llama(apply_template=answer), llama(tokenize=answer)):
        proof, asked = ask(pages)
        assert (proof, asked[0].path) == (None, LLAMA)
    assert ask({VLLM: answer}, page=VLLM)[0] is None
    proving = proving_of(reactor, {"/props": answer, METRICS: answer}, counts_reuse=True)
    assert run(proving, proving.started()) == [None]


@pytest.mark.parametrize(
    "tokens",
    [["1", "2"], [1.5, 2.5], [None], [1 << 70], {"1": 2}, CANARY, [1, 2, 3], [], -1],
    ids=str,
)
def test_tokens_that_are_none_prove_nothing(ask, tokens):
    """They are whole numbers, none below 0 (all -1 would agree), and as many as were counted."""

    def made(body):
        count = len(tokens_of(body.get("content", "a b")))
        return {"tokens": [-1] * count if tokens == -1 else tokens, "token_strs": ["a", "b"]}

    assert ask(llama(tokenize=says(made)))[0] is None
    assert ask({VLLM: says(made)}, page=VLLM)[0] is None


def test_what_is_not_what_was_counted_proves_nothing(ask):
    """Another model's template; tokens of vLLM without their texts, which show no template."""
    another = llama(lambda messages, tools=None: "You are " * 40 + inline(messages, tools))
    assert ask(another)[0] is None
    counts = says(lambda body: {"tokens": tokens_of(thinking(body["messages"]))})
    assert ask({VLLM: counts}, page=VLLM)[0] is None


def test_nobody_there_proves_nothing(reactor, logged):
    """The server is down, and that is said once."""
    gone = dict.fromkeys((LLAMA, "/props", METRICS), lambda _: fail(RefusedError()))
    proving = proving_of(reactor, gone, page=LLAMA, counts_reuse=True)
    for asking in (proving.prove(turn()), proving.prove(turn()), proving.started()):
        assert run(proving, asking) == [None]
    assert run(proving, proving.counted(Usage(10))) == [None]
    lines = [line for line in logged if "did not render a turn's prompts: ConnectionRef" in line]
    assert len(lines) == 1


def test_pages_that_are_all_slow_are_left_together(reactor):
    """Each within its time, but not all within theirs."""
    waiting = []

    def slow(page):
        def answer(request):
            waiting.append((Deferred(), page(request)))
            return waiting[-1][0]

        return answer

    pages = {path: slow(page) for path, page in llama().items()}
    proving = proving_of(reactor, pages, page=LLAMA)
    asking = Deferred.fromCoroutine(proving.prove(turn()))
    for number in (1, 2, 3):
        reactor.turn_until(lambda number=number: len(waiting) == number or asking.called)
        assert not asking.called
        reactor.advance(2.5)
        found, shown = waiting[-1]
        if not found.called:
            found.callback(shown)
    assert asking.result is None


def test_whoever_does_not_want_to_know_any_more_leaves_the_server(reactor):
    found = []
    hangs = llama(apply_template=lambda _: Deferred(lambda _: found.append("left")))
    proving = proving_of(reactor, hangs, page=LLAMA)
    asking = Deferred.fromCoroutine(proving.prove(turn())).addErrback(found.append)
    reactor.turn_until(lambda: proving.asker.asked)
    asking.cancel()
    assert found[0] == "left"
    assert found[1].check(CancelledError)


def test_a_start_is_told_by_the_counters_page_or_by_the_marker(reactor, monkeypatch):
    """The latter where counters do not tell it; its page is read in a thread.

    It holds the chat template, and may be as large as it likes.
    """
    pages, threads = {}, set()
    read = module.json.loads

    class Json:
        @staticmethod
        def loads(page):
            threads.add(threading.current_thread())
            return read(page)

    monkeypatch.setattr(module, "json", Json)

    def started(marker, **profile):
        pages["/props"] = 200, b'{"media_marker":"<__media_%d__>"}' % marker
        proving = proving_of(reactor, pages, **profile)
        return (*run(proving, proving.started()), proving.asker.paths)

    (first, asked), (second, _) = started(1), started(2)
    assert asked == ["/props"]
    assert first
    assert second
    assert first != second
    assert threading.current_thread() not in threads
    pages[METRICS] = counters(start=17.5)
    assert started(2, counts_reuse=True) == ("17.5", [METRICS])
    pages[METRICS] = counters(start=None)
    assert started(2, counts_reuse=True) == (second, [METRICS, "/props"])


@pytest.mark.parametrize("how", ["too large", "breaks off", "hangs"])
def test_a_server_that_does_not_come_to_an_end_is_left(how):
    """On real sockets: of a prompt of 40 MB not all is taken."""
    ended = []

    def answer(peer, _):
        peer.send(head(b"Content-Length: %d" % (40 << 20)) + b'{"prompt":"')
        if how == "too large":
            peer.send(b"x" * (40 << 20))
        elif how == "hangs":
            assert peer.wait_closed()
        ended.append(how)

    reactor = HandTurned()
    with sound_upstream() as server:
        server.reset(answer)
        asking = Deferred.fromCoroutine(proving_at(reactor, server.url, page=LLAMA).prove(turn()))
        reactor.until(lambda: not server.requests.empty())
        if how == "hangs":
            reactor.clock.advance(3.1)
        reactor.until(lambda: asking.called)
        assert asking.result is None
        reactor.until(lambda: ended or how == "too large")
        assert ended == [] or how != "too large"
    reactor.close()
