"""What is known of a server by its pages, answers and figures: transcripts, and any input."""

import json
import re
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.adapt.progress import PrefillProgress
from cacheproxy.core.dialects.chat import CHAT
from cacheproxy.core.dialects.messages import MESSAGES
from cacheproxy.core.dialects.responses import RESPONSES
from cacheproxy.core.kinds import looking
from cacheproxy.core.kinds.belief import MEMORY, ORDER, Beliefs
from cacheproxy.core.kinds.kind import as_object
from cacheproxy.core.kinds.known import BUILT_IN
from cacheproxy.core.kinds.llama_cpp import LLAMA_CPP, MORE_SLOTS, RAM_CACHE, SIMILARITY
from cacheproxy.core.kinds.metrics_page import sample_of
from cacheproxy.core.kinds.prefill import PrefillReader
from cacheproxy.core.kinds.profile import (
    MemoryKind,
    Profile,
    described,
    for_people,
    plain,
    profile_in,
)
from cacheproxy.core.kinds.status import (
    Answers,
    Look,
    MetricsPage,
    Sample,
    ServerFigures,
    UpstreamState,
)
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.core.prompt.request import Request
from tests import transcript
from tests.core.adapt.adapted import adapted

MANUAL = Path(__file__).parents[3] / "docs" / "servers.md"
URL = "http://localhost:8080"


def identify(pages, software="", **statuses):
    """What a server is, in one line."""
    shown = looking.identify(Answers(statuses, pages, software=software)).summary
    assert shown.isprintable()
    return shown


def asks(pages, software="", **known):
    """Which pages a server is asked for, of which these are there."""
    asking, asked = looking.asking(known), []
    path = next(asking)
    while True:
        asked.append(path)
        page = pages.get(path)
        status = page if isinstance(page, int) else 404 if page is None else 200
        try:
            path = asking.send((status, json.dumps(page).encode(), software))
        except StopIteration:
            return asked


def look(statuses, pages=None, sample=None):
    return looking.look_of(URL, 1.0, 2.0, Answers(statuses, pages or {}, sample))


def at(server, **more):
    return Look(URL, 1.0, 2.0, UpstreamState.UP, server=server, **more)


def reading(start=None, tasks=None, **figures):
    sample = Sample(ServerFigures(**figures))
    more = {"metrics": MetricsPage.ON, "sample": sample, "start": start, "tasks": tasks}
    return Look("u", 0.0, 0.0, UpstreamState.UP, **more)


def prefill(*chunks):
    """The last progress, and the number of the chunk with which the answer began."""
    reader = PrefillReader()
    for number, each in enumerate(chunks):
        assert reader.feed(each) == each
        if reader.has_begun:
            return reader.progress, number
    return reader.progress, None


def asked(body):
    """A request as it asks for progress, and what was edited."""
    came = Request("POST", "/v1/chat/completions", (), body)
    request, _, report = adapted(PrefillProgress(), came, {(): (came.dialect,)})
    return request.body, report


def hidden(*chunks):
    """What goes down of a stream whose progress was asked for by us."""
    reader = PrefillReader(strip_progress=True)
    down = [each if reader.has_begun else reader.feed(each) for each in chunks]
    return b"".join([*down, b"" if reader.has_begun else reader.close()])


def in_words(profile):
    page = for_people(profile)
    assert page.pop("says") == described(profile)
    assert page == {k: v for k, v in plain(profile).items() if k not in ("server", "placement")}
    return described(profile)


def learned(known, *facts):
    """A profile as it is completed by what answers show, after each of the facts."""
    beliefs, found = Beliefs(lambda: 1.7e9), []
    beliefs.learn(known, ())
    for name, *arguments in facts:
        getattr(beliefs, name)(*arguments)
        found.append(beliefs.profile)
    return found


@pytest.mark.parametrize("surface", ["pages", "looks", "known_pages", "counters", "learned"])
def test_all_that_is_said(surface):
    """By each server's pages, as it writes them and as it should not."""
    transcript.holds(f"{surface}.txt", globals())


@pytest.mark.parametrize("server", BUILT_IN, ids=lambda server: server.name)
def test_each_setting_that_is_advised_stands_in_the_manual(server):
    """Beside the server's name."""
    page = MANUAL.read_text(encoding="utf-8")
    own = server.settings
    settings = [*own.room, *own.points, *filter(None, [own.caching])]
    settings += [RAM_CACHE, SIMILARITY, MORE_SLOTS] if server is LLAMA_CPP else []
    flags = [*(one.flag for one in settings), own.context, own.reports, own.kwargs]
    assert server.name in page
    for flag in re.findall(r"--[a-z-]+|\b[A-Z]+_[A-Z_]+\b", " ".join([*flags, own.models])):
        assert flag in page, flag


def test_a_member_of_chat_template_kwargs_is_json():
    member = ("clear_thinking", False)
    assert as_object(member) == '{"clear_thinking": false}'
    assert LLAMA_CPP.with_kwargs(member) == "--chat-template-kwargs '{\"clear_thinking\": false}'"


WORDS = st.sampled_from(
    [
        *("data", "id", "owned_by", "max_model_len", "vllm", "version", "build_info"),
        *("default_generation_settings", "n_ctx", "total_slots"),
    ]
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from([*looking.marks()]), ANYTHING))
def test_whatever_the_pages_say_there_is_a_printable_summary(pages):
    """No page of a server makes the proxy fail."""
    identify(pages)


LINES = 'vllm:prompt_tokens_total{a="b"} 1.0\nllamacpp:prompt_tokens_total 385\nsglang:x 1e+03\n'


@given(st.text() | st.just(LINES), st.integers(0, 90), st.text())
def test_no_page_of_metrics_raises(page, at, noise):
    """Whatever comes: a page with something in its middle, or no page at all."""
    sample_of(page[:at] + noise + page[at:])


@given(st.lists(st.integers(0, 200), max_size=8))
def test_how_comments_were_cut_does_not_matter(cuts):
    body = b": keepalive 2048/4900\n\n:\n\n: keepalive 4900/4900\n\n"
    bounds = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    pieces = [body[start:stop] for start, stop in pairwise(bounds)]
    assert prefill(*pieces) == prefill(body)


TOLD = b',"prompt_progress":{"total":9,"cache":1,"processed":%d,"time_ms":3}'
SAID = b'data: {"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant",%s}}]%s}\n\n'
TALKS = b'"content":",\\"prompt_progress\\":{}"'


def named(name, told=b""):
    return b'event: response.%s\ndata: {"type":"response.%s","n":1%s}\n\n' % (name, name, told)


def chat(done):
    return SAID % (b'"content":null', TOLD % done)


def read(done):
    return named(b"in_progress", TOLD % done)


IN_PROGRESS = (read(1), named(b"in_progress"))
CREATED, ADDED = named(b"created"), named(b"output_item.added")
STREAMS = {
    "chat": [(chat(1), b""), b":\n\n", (chat(9), b""), SAID % (b'"content":null', b""), b"data: 1"],
    "responses": [CREATED, IN_PROGRESS, b":\n\n", (read(4), b""), (read(9), b""), ADDED],
    "given up": [CREATED, IN_PROGRESS, (read(4), b""), b"event: error\ndata: {}\n\n"],
    "broken off": [CREATED, IN_PROGRESS, b'event: response.in_progress\ndata: {"type'],
    "a name alone": [CREATED, b"event: response.in_progress\n"],
    "without any": [b":\n\n", CREATED, named(b"in_progress"), ADDED],
    "says it": [(chat(1), b""), SAID % (TALKS, b""), chat(9)],
}


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
@given(cuts=st.lists(st.integers(0, 700), max_size=8))
def test_what_we_asked_for_does_not_go_down(stream, cuts):
    """However it is cut; of each (sent, shown) the other: else each byte, in its order."""
    pairs = [each if isinstance(each, tuple) else (each, each) for each in stream]
    sent, shown = (b"".join(each) for each in zip(*pairs, strict=True))
    bounds = [0, *sorted(cuts), len(sent)]
    assert hidden(*[sent[start:stop] for start, stop in pairwise(bounds)]) == shown


@given(st.from_type(Profile))
def test_plain_values_say_all_of_a_profile(profile):
    """JSON can spell them, and what is not known takes no room."""
    values = plain(profile)
    assert profile_in(json.loads(json.dumps(values))) == profile
    assert "null" not in re.sub(r'"(\\.|[^"\\])*"', "", json.dumps(values))
    assert (values == {}) is (profile == Profile())


FACTS = st.one_of(
    st.tuples(st.just("saw"), st.just(ORDER), st.sampled_from(list(PromptOrder))),
    st.tuples(st.just("saw"), st.just(MEMORY), st.sampled_from(list(MemoryKind)[:2])),
    st.tuples(st.just("forget")),
    st.tuples(
        st.just("saw_reuse"),
        st.sampled_from([CHAT, MESSAGES, RESPONSES]),
        st.none() | st.integers(-5, 10**9),
    ),
)


@given(st.lists(FACTS, max_size=30))
def test_changes_grow_whenever_something_new_is_said(facts):
    """Whoever keeps a completed profile can rely on it."""
    beliefs = Beliefs(lambda: 1.7e9)
    said, changes = beliefs.profile, beliefs.changes
    for name, *arguments in facts:
        getattr(beliefs, name)(*arguments)
        now = Beliefs._compose(beliefs)
        if now != said:
            assert beliefs.changes > changes
        said, changes = now, beliefs.changes


@pytest.mark.parametrize(
    ("body", "state"),
    [
        (b" <!DOCTYPE html><html><body>log in</body></html>", UpstreamState.STRANGE),
        (b'{"data": []}', UpstreamState.UP),
        (b"", UpstreamState.UP),
        (b"ok", UpstreamState.UP),
    ],
)
def test_who_answers_with_web_pages_is_no_model_server(body, state):
    """A router's log-in page stands at any path."""

    def found():
        answers.append((yield from looking.asking({})))

    answers, asking = [], found()
    next(asking)
    with suppress(StopIteration):
        while True:
            asking.send((200, body, ""))
    assert looking.look_of(URL, 1.0, 2.0, answers[0]).state is state
