"""What the real server renders and counts is what its answers count, and shows what it did."""

import json

import pytest

from cacheproxy.core.conversation.lanes import Before
from cacheproxy.core.conversation.usage import usage_of
from cacheproxy.core.conversation.verdict import Rewrite
from cacheproxy.core.judge.evidence import Evidence
from cacheproxy.core.prompt.prompt import PromptOrder, prompt_of
from cacheproxy.core.prompt.request import Request
from cacheproxy.http_client import Site
from tests.proxy.proving.turned import HandTurned, chat, proving_at

from .replay import PATHS, body_for

pytestmark = pytest.mark.llama

PAGE = "/apply-template"
WORDS = "the quick brown fox jumps over a lazy dog and waits outside while rain falls "
FIRST = ({"role": "system", "content": WORDS * 9}, {"role": "user", "content": WORDS * 3})
THOUGHT = {"role": "assistant", "content": "rain falls", "reasoning_content": WORDS * 2}
NEXT = {"role": "user", "content": "and the dog"}
LATE = {"role": "system", "content": "all dogs are quick"}
TOOLS = [{"type": "function", "function": {"name": "look", "description": WORDS}}]


@pytest.fixture
def reactor():
    found = HandTurned()
    yield found
    found.close()


def ask(url, request):
    """Send a request to the server; return what it counted."""
    return usage_of(Site(url).post(request.target, request.body).json())


def compared(url, before, after):
    """Both requests, sent, and what is known of them; the usage of the second."""
    was, now = ask(url, before), ask(url, after)
    one = prompt_of(before, PromptOrder.SYSTEM_FIRST)
    other = prompt_of(after, PromptOrder.SYSTEM_FIRST)
    return Evidence(Before(one, one, was.prompt, before), other, other, now, request=after), now


@pytest.mark.parametrize(
    ("template", "before", "after", "rewrite"),
    [
        ("think", (*FIRST, THOUGHT, {**NEXT, "role": "tool"}), (NEXT,), Rewrite.THINKING),
        ("hoist", FIRST, (THOUGHT, LATE, NEXT), Rewrite.HOISTED),
        ("tools", FIRST, (THOUGHT, NEXT), Rewrite.TOOLS),
        ("inline", FIRST, (THOUGHT, NEXT), None),
    ],
)
def test_what_a_template_did_is_proved(serve, reactor, *, template, before, after, rewrite):
    """The proof shares what the server reused, but for a token or two."""
    server = serve(template, WORDS, n_ctx=4096)
    one = chat(*before, tools=TOOLS, max_tokens=1)
    other = chat(*before, *after, tools=TOOLS, max_tokens=1)
    known, usage = compared(server.url, one, other)
    proof = reactor.run(proving_at(reactor, server.url, page=PAGE).prove(known))
    assert (proof.before, proof.now) == (known.had, known.usage.prompt)
    assert proof.rewrite is rewrite
    assert abs(proof.shared - usage.reused) <= 2
    assert (proof.shared == proof.before) is (rewrite is None)


def test_a_server_that_was_started_anew_says_so(serve, reactor):
    """The same model, another start; asked twice it says the same."""
    starts = []
    for _ in range(2):
        server = serve("inline", WORDS, n_ctx=4096)
        proving = proving_at(reactor, server.url, counts_reuse=True)
        starts.append({reactor.run(proving.started()) for _ in range(2)})
        server.close()
    assert [len(each) for each in starts] == [1, 1]
    assert None not in starts[0] | starts[1]
    assert starts[0] != starts[1]


@pytest.mark.parametrize(
    ("api", "capture"),
    [
        ("messages", "claude-stream"),
        ("chat", "openclaw-completions"),
        ("responses", "codex-resume"),
    ],
)
def test_prompts_of_each_api_are_rendered_as_they_were_counted(
    llama, recorded, reactor, api, capture
):
    """A recorded turn and the one after it: else there would be no proof."""
    requests = []
    for turn in recorded[capture].turns[:2]:
        body = json.dumps(body_for(api, turn.request) | {"model": "random"}).encode()
        requests.append(Request("POST", PATHS[api], (), body))
    known, _ = compared(llama.url, *requests)
    assert known.had > 1000
    proof = reactor.run(proving_at(reactor, llama.url, page=PAGE).prove(known))
    assert proof is not None
    assert abs(proof.before - known.had) <= max(8, 0.002 * known.had)
    assert abs(proof.now - known.usage.prompt) <= max(8, 0.002 * known.usage.prompt)
