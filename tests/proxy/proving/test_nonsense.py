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


TOKENS = {
    "texts": ["a", "b"],
    "numbers as texts": ["1", "2"],
    "parts of numbers": [1.5, 2.5],
    "none": [None],
    "lists": [[1], [2]],
    "too large": [1 << 70],
    "an object": {"1": 2},
    "a text": CANARY,
    "not those of this prompt": [1, 2, 3],
    "no tokens": [],
}


@pytest.mark.parametrize("answer", NONSENSE.values(), ids=NONSENSE)
@pytest.mark.parametrize("page", ["apply_template", "tokenize"])
def test_a_page_that_makes_no_sense_proves_nothing(ask, page, answer):
    """Nobody fails for it, and what it says is not logged."""
    pages = llama(thinking, **{page: answer})
    assert ask(pages) is None
    assert pages.paths[0] == LLAMA


@pytest.mark.parametrize("answer", NONSENSE.values(), ids=NONSENSE)
def test_neither_does_one_of_vllm(ask, answer):
    """One page, read in another way."""
    assert ask(Pages(tokenize=answer), page=VLLM) is None


@pytest.mark.parametrize("tokens", TOKENS.values(), ids=TOKENS)
def test_tokens_that_are_none_prove_nothing(ask, tokens):
    """They are whole numbers, and as many as were counted."""
    assert ask(llama(thinking, tokenize=Says(lambda _: {"tokens": tokens}))) is None
    both = Says(lambda _: {"tokens": tokens, "token_strs": ["a", "b"]})
    assert ask(Pages(tokenize=both), page=VLLM) is None


def test_as_many_negative_tokens_as_were_counted_prove_nothing(ask):
    """They would all be equal, and so the prompts agree."""
    minus = Says(lambda body: {"tokens": [-1 for _ in tokens_of(body["content"])]})
    assert ask(llama(thinking, tokenize=minus)) is None


def test_tokens_of_vllm_without_their_texts_prove_nothing(ask):
    """What the template did cannot be seen in numbers."""

    def counts_only(body):
        return {"tokens": tokens_of(thinking(body["messages"]))}

    assert ask(Pages(tokenize=Says(counts_only)), page=VLLM) is None


def test_a_page_that_answers_for_another_model_proves_nothing(ask):
    """Its count is not the one that the answer told."""

    def another(messages, tools=None):
        return "You are another model. " * 40 + inline(messages, tools)

    assert ask(llama(another)) is None


def test_a_prompt_of_40_mb_is_not_taken(ask):
    """The server is left as soon as it is clear."""
    notes = []
    assert ask(llama(thinking, apply_template=forty_megabytes(notes))) is None
    assert ask(llama(thinking, tokenize=forty_megabytes(notes))) is None
    assert ask(Pages(tokenize=forty_megabytes(notes)), page=VLLM) is None
    assert notes == []


def test_nobody_there_proves_nothing(reactor, logged):
    """The server is down."""
    proving = proving_at(reactor, f"http://127.0.0.1:{free_port()}", page=LLAMA, counts_reuse=True)
    assert reactor.run(proving.prove(*turn())) is None
    assert reactor.run(proving.started()) is None
    assert reactor.run(proving.counted(Usage(10))) is None


@pytest.mark.parametrize("page", ["apply_template", "tokenize"])
def test_a_page_that_hangs_is_left(reactor, upstream, logged, page):
    """Its connection is closed, when the time is over and not before."""
    left = []
    pages = llama(thinking, **{page: lambda peer: left.append(peer.wait_closed())})
    upstream.reset(pages)
    asking = Deferred.fromCoroutine(proving_at(reactor, upstream.url, page=LLAMA).prove(*turn()))
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
    asking = Deferred.fromCoroutine(proving_at(reactor, upstream.url, page=LLAMA).prove(*turn()))
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
    asking = Deferred.fromCoroutine(proving_at(reactor, upstream.url, page=LLAMA).prove(*turn()))
    asking.addErrback(failed.append)
    reactor.until(lambda: pages.asked)
    asking.cancel()
    reactor.until(lambda: left)
    assert left == [True]
    assert failed[0].check(CancelledError)
