"""What a server rendered is asked for, off the reactor's thread, and compared."""

from __future__ import annotations

import json
import threading

from msgspec.structs import replace

from cacheproxy.core.conversation.verdict import Rewrite
from cacheproxy.core.prompt.request import Request
from cacheproxy.proxy.servers import proving as module
from tests.core.templates import inline, thinking

from .pages import (
    AFTER,
    BEFORE,
    LLAMA,
    SYSTEM,
    VLLM,
    WORD,
    Pages,
    Says,
    llama,
    tokens_of,
    turn,
)


def test_what_a_template_did_is_told_by_the_two_prompts(ask):
    """The thinking of the turn before is gone."""
    pages = llama(thinking)
    proof = ask(pages)
    assert proof.rewrite is Rewrite.THINKING
    assert 0 < proof.shared < proof.now < proof.before
    assert pages.paths == [LLAMA, VLLM] * 2
    assert "model" in json.loads(pages.asked[0][1])
    agreed = ask(llama(inline), turn(inline))
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

    pages = Pages(tokenize=Says(tokenizes))
    assert ask(pages, page=VLLM).rewrite is Rewrite.THINKING
    assert pages.paths == [VLLM] * 2


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
    pages = llama(thinking)
    for page in ("", "/api/show"):  # it renders nowhere, or on no page that we know
        assert ask(pages, page=page) is None
    known = turn()
    other = known.before._replace(request=Request("POST", "/v1/completions", (), b"{}"))
    assert ask(pages, replace(known, before=other)) is None
    assert pages.paths == []


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
    large = {"role": "system", "content": "It is a long story. " * 14_000}
    before, after = (large, *BEFORE[1:]), (large, *AFTER[1:])
    proof = ask(llama(thinking), turn(before=before, after=after))
    assert proof.rewrite is Rewrite.THINKING
    assert proof.before > 100_000
    assert {name for name, _ in threads} == {"loads", "dumps", "proof_of", "chat_of", "array"}
    assert reactor.thread not in {thread for _, thread in threads}
