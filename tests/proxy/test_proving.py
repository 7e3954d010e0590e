"""Rendered prompts and counters are asked for; what makes no sense proves nothing."""

from __future__ import annotations

import gc
import json
import re
import threading
from functools import partial

import pytest
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import formatEvent, globalLogPublisher

from cacheproxy.core.request import Request
from cacheproxy.core.usage import Usage
from cacheproxy.core.verdict import Rewrite
from cacheproxy.proxy import proving as module
from tests.core.templates import inline, thinking

from .harness import free_port, head, whole
from .proving import HandTurned, Pages, Says, chat, compared, proving_at

LLAMA, VLLM = "/apply-template", "/tokenize"
CANARY = "kanarienvogel"
_WORD = re.compile(r"\w+|\W")
_seen: dict[str, int] = {}


def tokens_of(text):
    """A number for each word: what a tokenizer does."""
    return [_seen.setdefault(word, len(_seen)) for word in _WORD.findall(text)]


def render(template, body):
    return {"prompt": template(body["messages"], body.get("tools"))}


def tokenize(body):
    return {"tokens": tokens_of(body["content"])}


def llama(template, **pages):
    """The two pages of a llama-server."""
    rendering = {"apply_template": Says(partial(render, template)), "tokenize": Says(tokenize)}
    return Pages(**rendering | pages)


USER = {"role": "user", "content": f"Look at the {CANARY}."}
SYSTEM = {"role": "system", "content": "Be brief. " * 20}
THOUGHT = {"role": "assistant", "content": "", "reasoning_content": "Let me think. " * 10}
BEFORE = (SYSTEM, USER, THOUGHT)
AFTER = (*BEFORE, {"role": "user", "content": "What now?"})


def turn(template=thinking, before=BEFORE, after=AFTER, headers=(), **fields):
    """Two requests and what is known of them: counted as ``template`` renders them."""
    one, other = chat(*before, headers=headers, **fields), chat(*after, headers=headers, **fields)
    counts = [len(tokens_of(template(list(each), fields.get("tools")))) for each in (before, after)]
    return one, other, compared(one, other, *counts)


@pytest.fixture
def reactor():
    found = HandTurned()
    yield found
    assert not found.clock.getDelayedCalls()
    found.close()


@pytest.fixture
def logged():
    """All that was logged, as text, with the errors that nobody handled."""
    found = []

    def see(event):
        failure = event.get("log_failure")
        more = failure.getTraceback() if failure is not None else ""
        found.append(f"{formatEvent(event)} {more}")

    globalLogPublisher.addObserver(see)
    yield found
    gc.collect()
    globalLogPublisher.removeObserver(see)
    assert not any(CANARY in line or "Traceback" in line for line in found), found
    assert not any("Unhandled" in line for line in found), found


@pytest.fixture
def ask(reactor, upstream, logged):
    """Ask a server with these pages for a proof."""

    def ask(pages, of=None, page=LLAMA, **profile):
        upstream.reset(pages)
        proving = proving_at(reactor, upstream.url, page=page, **profile)
        return reactor.run(proving.prove(*(of or turn())))

    return ask


# What is rendered.


def test_what_a_template_did_is_told_by_the_two_prompts(ask):
    """The thinking of the turn before is gone."""
    pages = llama(thinking)
    proof = ask(pages)
    assert proof.rewrite is Rewrite.THINKING
    assert 0 < proof.shared < proof.now < proof.before
    assert pages.paths == [LLAMA, VLLM] * 2
    assert "model" in json.loads(pages.asked[0][1])


def test_prompts_that_agree_are_told_as_such(ask):
    """Then the template is not why."""
    proof = ask(llama(inline), turn(inline))
    assert (proof.shared, proof.rewrite) == (proof.before, None)


def test_vllm_renders_and_counts_in_one(ask):
    """Its tokens come with their texts."""

    def tokenizes(body):
        assert body["return_token_strs"] is True
        text = thinking(body["messages"], body.get("tools"))
        spelled = [word.replace(" ", "Ġ").replace("\n", "Ċ") for word in _WORD.findall(text)]
        return {"tokens": tokens_of(text), "token_strs": spelled}

    pages = Pages(tokenize=Says(tokenizes))
    assert ask(pages, page=VLLM).rewrite is Rewrite.THINKING
    assert pages.paths == [VLLM] * 2


def test_a_server_that_renders_nowhere_is_not_asked(ask):
    """Nor one whose page is none that we know."""
    for page in ("", "/api/show"):
        pages = llama(thinking)
        assert ask(pages, page=page) is None
        assert pages.paths == []


def test_keys_go_along_and_nothing_else(ask, upstream):
    """The page may want the same key as the request."""
    headers = (
        (b"Authorization", b"Bearer key"),
        (b"X-Api-Key", b"key"),
        (b"Cookie", b"a=b"),
        (b"X-Session-Id", b"s"),
    )
    ask(llama(thinking), turn(headers=headers))
    for _ in range(4):
        received = upstream.received()
        assert received.values(b"authorization") == [b"Bearer key"]
        assert received.values(b"x-api-key") == [b"key"]
        assert received.values(b"cookie") == received.values(b"x-session-id") == []


def test_a_request_that_is_too_large_or_no_conversation_is_not_rendered(ask):
    """It would take the server too long; or it has no messages."""
    long = {"role": "user", "content": "x" * (4 << 20)}
    for of in (turn(before=(SYSTEM, long)), turn(after=(SYSTEM, long))):
        pages = llama(thinking)
        assert ask(pages, of) is None
        assert not any(len(body) > (1 << 20) for _, body in pages.asked)
    _, other, known = turn()
    pages = llama(thinking)
    assert ask(pages, (Request("POST", "/v1/completions", (), b"{}"), other, known)) is None
    assert pages.paths == []


# What makes no sense.


def bad(status):
    return whole(b'{"error":"%s"}' % CANARY.encode(), status=status)


def forty_megabytes(notes):
    def answer(peer):
        peer.send(head(b"Content-Length: %d" % (40 << 20)) + b'{"prompt":"')
        peer.send(b"x" * (40 << 20))
        notes.append("all of it was taken")

    return answer


NONSENSE = {
    "missing": None,
    "an error": bad(b"500 Internal Server Error"),
    "a wrong key": bad(b"401 Unauthorized"),
    "busy": bad(b"503 Service Unavailable"),
    "moved": bad(b"302 Found"),
    "nothing": b"",
    "an empty body": whole(b""),
    "half": head(b"Content-Length: 100") + b'{"prompt":"' + CANARY.encode(),
    "no HTTP": b"\x15\x03\x01\x00\x02\x02\x16",
    "no JSON": whole(b"<html>%s</html>" % CANARY.encode()),
    "no text": whole(b'\xff\xfe{"prompt":"x"}'),
    "a number": whole(b"7"),
    "a list": whole(b"[[]]"),
    "nothing in it": whole(b"{}"),
    "null": whole(b'{"prompt":null,"tokens":null}'),
    "numbers": whole(b'{"prompt":7,"tokens":7}'),
    "deep": whole(b"[" * 100_000),
    "4 MB": whole(b'{"prompt":"' + b"x" * (4 << 20) + b'","tokens":[1]}'),
    "closed": lambda peer: peer.reset(),
}
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


def test_nothing_large_is_read_on_the_reactors_thread(ask, reactor, monkeypatch):
    """Nor is it compared there: it would keep others waiting."""
    threads = []

    def watched(work):
        def watch(*arguments):
            threads.append((work.__name__, threading.current_thread()))
            return work(*arguments)

        return watch

    class Json:
        loads, dumps = watched(json.loads), watched(json.dumps)

    monkeypatch.setattr(module, "json", Json)
    for name in ("proof_of", "chat_of", "array"):
        monkeypatch.setattr(module, name, watched(getattr(module, name)))
    large = {"role": "system", "content": "It is a long story. " * 70_000}
    before, after = (large, *BEFORE[1:]), (large, *AFTER[1:])
    proof = ask(llama(thinking), turn(before=before, after=after))
    assert proof.rewrite is Rewrite.THINKING
    assert proof.before > 500_000
    assert {name for name, _ in threads} == {"loads", "dumps", "proof_of", "chat_of", "array"}
    assert reactor.thread not in {thread for _, thread in threads}


# Whether it was restarted.


def test_a_start_is_told_by_the_counters_page_or_by_the_marker(reactor, upstream, logged):
    """The latter where counters do not tell it."""
    pages = Pages(props=whole(b'{"media_marker":"<__media_1__>"}'))
    upstream.reset(pages)
    first = reactor.run(proving_at(reactor, upstream.url).started())
    pages.pages["/props"] = whole(b'{"media_marker":"<__media_2__>"}')
    second = reactor.run(proving_at(reactor, upstream.url).started())
    assert first
    assert second
    assert first != second
    assert pages.paths == ["/props"] * 2
    pages.pages["/metrics"] = page_of(start=17.5)
    told = reactor.run(proving_at(reactor, upstream.url, counts_reuse=True).started())
    assert told == "17.5"
    pages.pages["/metrics"] = page_of(start=None)
    assert reactor.run(proving_at(reactor, upstream.url, counts_reuse=True).started()) == second


@pytest.mark.parametrize("answer", NONSENSE.values(), ids=NONSENSE)
def test_pages_that_make_no_sense_tell_of_no_start(reactor, upstream, logged, answer):
    """No start is better than a wrong one."""
    upstream.reset(Pages(props=answer, metrics=answer))
    proving = proving_at(reactor, upstream.url, counts_reuse=True)
    assert reactor.run(proving.started()) is None


def test_a_page_of_properties_is_read_in_a_thread(reactor, upstream, monkeypatch):
    """It holds the chat template, and may be as large as it likes."""
    threads = []

    def read(*arguments):
        threads.append(threading.current_thread())

    monkeypatch.setattr(module, "start_of", read)
    upstream.reset(Pages(props=whole(b'{"media_marker":"m"}')))
    assert reactor.run(proving_at(reactor, upstream.url).started()) is None
    assert len(threads) == 1
    assert reactor.thread not in threads


# What was counted.


def page_of(prompt=0, reused=0, start=1.5):
    lines = [f'vllm:prompt_tokens_total{{engine="0"}} {prompt}']
    if reused is not None:
        lines.append(f'vllm:prompt_tokens_cached_total{{engine="0"}} {reused}')
    if start is not None:
        lines.append(f"process_start_time_seconds {start}")
    return whole("\n".join([*lines, ""]).encode(), b"Content-Type: text/plain")


EACH_OF_MANY = b"vllm:prompt_tokens_total 0.004\nvllm:prompt_tokens_cached_total 0.001\n"


@pytest.fixture
def count(reactor, upstream, logged):
    """Count requests one after another, the counters each time as a page says."""
    upstream.reset(pages := Pages())
    proving = proving_at(reactor, upstream.url, counts_reuse=True)

    def count(*steps):
        found = []
        for page, prompt in steps:
            pages.pages["/metrics"] = page
            found.append(reactor.run(proving.counted(Usage(prompt))))
        return found

    count.pages = pages
    return count


def test_what_the_counters_gained_is_what_was_reused(count):
    """From the second request on: of the first, nobody knows what was before."""
    steps = ((page_of(100, 0), 100), (page_of(220, 96), 120), (page_of(350, 96), 130))
    assert count(*steps) == [None, 96, 0]


@pytest.mark.parametrize(
    "page",
    [
        page_of(300, 100),
        page_of(150, 100),
        page_of(50, 10),
        page_of(220, 0, start=2.5),
        page_of(220, 60, start=None),
        page_of(220, 30),
        page_of(220, 400),
        page_of(220, None),
        page_of("NaN", "NaN"),
        page_of("many", "few"),
        page_of(-220, -60),
        whole(b""),
        whole(b"<html>"),
        whole(b"\xff\xfe"),
        whole(EACH_OF_MANY * 55_000),
        bad(b"500 Internal Server Error"),
        b"",
    ],
    ids=[
        "more: another ran beside it",
        "less: it is not in yet",
        "fell",
        "started anew",
        "does not tell its start any more",
        "reused fell",
        "reused more than was sent",
        "reused is not told any more",
        "no numbers",
        "texts",
        "negative",
        "empty",
        "a page of another kind",
        "no text",
        "more series than any server has",
        "an error",
        "nothing",
    ],
)
def test_counters_that_do_not_fit_the_request_count_nothing(count, page):
    """The next one counts from where they stand."""
    (first,) = count((page_of(100, 40), 100))
    (found,) = count((page, 120))
    assert first is found is None
    assert count((page_of(1000, 500), 120), (page_of(1100, 550), 100)) == [None, 50]


def test_counters_that_follow_a_little_later_are_read_once_more(count, upstream):
    """A server may count after it has answered."""
    late = iter([page_of(100, 40), page_of(220, 136)])
    assert count((page_of(100, 40), 100)) == [None]
    assert count((lambda peer: peer.send(next(late)), 120)) == [96]


def test_what_was_not_counted_in_the_answer_is_not_counted_by_us(count):
    """The length of the prompt tells whether the request ran alone."""
    assert count((page_of(100, 40), 100), (page_of(220, 136), None)) == [None, None]
    assert count((page_of(320, 236), 100)) == [100]


def test_of_two_at_once_none_has_what_both_gained(reactor, upstream, logged):
    """They are counted one after the other, and what was gained is neither's."""
    upstream.reset(pages := Pages(metrics=page_of(100, 40)))
    proving = proving_at(reactor, upstream.url, counts_reuse=True)
    reactor.run(proving.counted(Usage(100)))
    pages.pages["/metrics"] = page_of(300, 140)
    counting = proving.counted(Usage(100)), proving.counted(Usage(100))
    assert reactor.run_all(*counting) == [None, None]


def test_two_of_one_length_do_not_both_have_what_one_gained(reactor, upstream, logged):
    """The one that is shown first has it; the other has what comes then."""
    upstream.reset(pages := Pages(metrics=page_of(100, 40)))
    proving = proving_at(reactor, upstream.url, counts_reuse=True)
    reactor.run(proving.counted(Usage(100)))
    shown = iter([page_of(200, 136), page_of(300, 136)])
    pages.pages["/metrics"] = lambda peer: peer.send(next(shown))
    counting = proving.counted(Usage(100)), proving.counted(Usage(100))
    assert reactor.run_all(*counting) == [96, 0]


def test_so_many_at_once_are_not_even_read(reactor, upstream, logged):
    """They cannot have run alone, and need not wait for one another."""
    upstream.reset(pages := Pages(metrics=page_of(100, 40)))
    proving = proving_at(reactor, upstream.url, counts_reuse=True)
    assert reactor.run_all(*(proving.counted(Usage(7)) for _ in range(50))) == [None] * 50
    assert len(pages.asked) <= 2 * 9


def test_counters_that_hang_are_left(reactor, upstream, logged):
    """What waits behind them is asked in its turn."""
    left = []
    pages = Pages(metrics=lambda peer: left.append(peer.wait_closed()))
    upstream.reset(pages)
    proving = proving_at(reactor, upstream.url, counts_reuse=True)
    found = []
    for prompt in (100, 120):
        asking = Deferred.fromCoroutine(proving.counted(Usage(prompt)))
        asking.addBoth(found.append)
    for number in (1, 2):
        reactor.until(lambda number=number: len(pages.asked) == number)
        reactor.clock.advance(3.1)
        reactor.until(lambda number=number: len(left) == len(found) == number)
    assert found == [None, None]


def test_counting_that_is_given_up_leaves_the_server_and_lets_the_next_one_in(
    reactor, upstream, logged
):
    """At once."""
    left, failed = [], []
    pages = Pages(metrics=lambda peer: left.append(peer.wait_closed()))
    upstream.reset(pages)
    proving = proving_at(reactor, upstream.url, counts_reuse=True)
    asking = Deferred.fromCoroutine(proving.counted(Usage(100))).addErrback(failed.append)
    reactor.until(lambda: pages.asked)
    pages.pages["/metrics"] = page_of(100, 40)
    asking.cancel()
    reactor.until(lambda: left)
    assert failed[0].check(CancelledError)
    assert reactor.run(proving.counted(Usage(100))) is None
    pages.pages["/metrics"] = page_of(200, 60)
    assert reactor.run(proving.counted(Usage(100))) == 20
