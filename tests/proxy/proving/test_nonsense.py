"""Pages that make no sense, are too large or hang prove nothing, and nobody fails for them."""

from __future__ import annotations

import threading
from functools import partial

import pytest
from twisted.internet.defer import CancelledError, Deferred

from cacheproxy.core.conversation.usage import Usage
from tests.core.templates import inline, thinking
from tests.proxy.harness import free_port, head

from .pages import (
    CANARY,
    LLAMA,
    NONSENSE,
    VLLM,
    Pages,
    Says,
    llama,
    render,
    tokenize,
    tokens_of,
    turn,
)
from .turned import proving_at


def forty_megabytes(notes):
    def answer(peer):
        peer.send(head(b"Content-Length: %d" % (40 << 20)) + b'{"prompt":"')
        peer.send(b"x" * (40 << 20))
        notes.append("all of it was taken")

    return answer


@pytest.mark.parametrize("answer", NONSENSE.values(), ids=NONSENSE)
@pytest.mark.parametrize("page", ["apply_template", "tokenize", "vLLM's"])
def test_a_page_that_makes_no_sense_proves_nothing(ask, page, answer):
    """Nobody fails for it, and what it says is not logged."""
    if page == "vLLM's":
        assert ask(Pages(tokenize=answer), page=VLLM) is None
        return
    pages = llama(thinking, **{page: answer})
    assert ask(pages) is None
    assert pages.paths[0] == LLAMA


@pytest.mark.parametrize(
    "tokens",
    [
        lambda _: ["1", "2"],
        lambda _: [1.5, 2.5],
        lambda _: [None],
        lambda _: [1 << 70],
        lambda _: {"1": 2},
        lambda _: CANARY,
        lambda _: [1, 2, 3],
        lambda _: [],
        lambda body: [-1 for _ in tokens_of(body.get("content", "a b"))],
    ],
)
def test_tokens_that_are_none_prove_nothing(ask, tokens):
    """They are whole numbers, none below 0 (all -1 would agree), and as many as were counted."""
    page = Says(lambda body: {"tokens": tokens(body), "token_strs": ["a", "b"]})
    assert ask(llama(thinking, tokenize=page)) is None
    assert ask(Pages(tokenize=page), page=VLLM) is None


def test_what_is_not_what_was_counted_proves_nothing(ask):
    """Another model's template; tokens of vLLM without their texts, which show no template."""
    assert (
        ask(llama(lambda messages, tools=None: "You are " * 40 + inline(messages, tools))) is None
    )
    counts = Says(lambda body: {"tokens": tokens_of(thinking(body["messages"]))})
    assert ask(Pages(tokenize=counts), page=VLLM) is None


def test_a_prompt_of_40_mb_is_not_taken(ask):
    """The server is left as soon as it is clear."""
    notes = []
    assert ask(llama(thinking, apply_template=forty_megabytes(notes))) is None
    assert ask(Pages(tokenize=forty_megabytes(notes)), page=VLLM) is None
    assert notes == []


def test_nobody_there_proves_nothing(reactor, logged):
    """The server is down, and that is said once."""
    proving = proving_at(reactor, f"http://127.0.0.1:{free_port()}", page=LLAMA, counts_reuse=True)
    assert reactor.run(proving.prove(turn())) is None
    assert reactor.run(proving.prove(turn())) is None
    assert reactor.run(proving.started()) is None
    assert reactor.run(proving.counted(Usage(10))) is None
    (line,) = (line for line in logged if "did not render a turn's prompts" in line)
    assert line.split(": ")[1].strip() == "ConnectionRefusedError"


@pytest.mark.parametrize("page", ["apply_template", "tokenize"])
def test_a_page_that_hangs_is_left(reactor, upstream, logged, page):
    """Its connection is closed, when the time is over and not before."""
    left = []
    pages = llama(thinking, **{page: lambda peer: left.append(peer.wait_closed())})
    upstream.reset(pages)
    asking = Deferred.fromCoroutine(proving_at(reactor, upstream.url, page=LLAMA).prove(turn()))
    hanging = f"/{page.replace('_', '-')}"
    reactor.until(lambda: hanging in pages.paths)
    reactor.clock.advance(2.9)
    reactor.real.iterate(0)
    assert not asking.called
    reactor.clock.advance(0.2)
    reactor.until(lambda: asking.called and left)
    assert (asking.result, left) == (None, [True])


def test_pages_that_are_all_slow_are_left_together(reactor, upstream, logged):
    """Each within its time, but not all within theirs."""
    go_on = threading.Semaphore(0)

    def slow(made):
        def answer(body):
            go_on.acquire()
            return made(body)

        return Says(answer)

    pages = llama(thinking, apply_template=slow(partial(render, thinking)), tokenize=slow(tokenize))
    upstream.reset(pages)
    asking = Deferred.fromCoroutine(proving_at(reactor, upstream.url, page=LLAMA).prove(turn()))
    for number in (1, 2, 3):
        reactor.until(lambda number=number: len(pages.asked) == number or asking.called)
        assert not asking.called
        reactor.clock.advance(2.5)
        go_on.release()
    reactor.until(lambda: asking.called)
    assert asking.result is None
    go_on.release(4)


def test_whoever_does_not_want_to_know_any_more_leaves_the_server(reactor, upstream, logged):
    """At once, and is told so."""
    left, failed = [], []
    pages = llama(thinking, apply_template=lambda peer: left.append(peer.wait_closed()))
    upstream.reset(pages)
    asking = Deferred.fromCoroutine(proving_at(reactor, upstream.url, page=LLAMA).prove(turn()))
    asking.addErrback(failed.append)
    reactor.until(lambda: pages.asked)
    asking.cancel()
    reactor.until(lambda: left)
    assert left == [True]
    assert failed[0].check(CancelledError)
