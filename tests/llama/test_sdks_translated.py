"""The official SDKs through a translation, against the same server's own API of their kind.

llama-server speaks both APIs, so that each SDK can ask twice: the server itself, and by way of the
other API. Both SDKs, Python and JavaScript, whole answers and streams.
"""

from __future__ import annotations

import itertools

import pytest
from cacheproxy_demo.embedded import LlamaServer, write_model

from cacheproxy.child.proxy import ProxyService as Proxy

pytest.importorskip("anthropic")
pytest.importorskip("openai")

from anthropic.types import RawMessageStreamEvent
from openai.types.chat import ChatCompletionChunk
from pydantic import TypeAdapter

from tests.sdk.conftest import _packages  # noqa: F401 (a fixture)
from tests.sdk.translated import SAID, chunks_said, javascript_in, python

pytestmark = pytest.mark.llama

LANGUAGES = ("python", "javascript")
SCHEMA = {
    "type": "object",
    "properties": {"where": {"type": "string", "enum": ["up", "down"]}},
    "required": ["where"],
}
WHERE = {"role": "user", "content": "Where does it lie? Größe: 3 \U0001f600"}
TOO_LONG = {"messages": [{"role": "user", "content": " of" * 5_000}]}
THINKING = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}"
    "{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
    "<think>\n{% if enable_thinking is defined and not enable_thinking %}\n</think>\n\n"
    "{% endif %}{% endif %}"
)
"""A template that opens the thinking itself, as those of many models do."""

MESSAGES_HISTORY = [
    WHERE,
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"where": "up"}},
            {"type": "tool_use", "id": "toolu_2", "name": "look", "input": {"where": "down"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "nothing"},
            {
                "type": "tool_result",
                "tool_use_id": "toolu_2",
                "content": [{"type": "text", "text": "a cat"}],
            },
        ],
    },
]


def called(name, arguments):
    return {"id": name, "type": "function", "function": {"name": "look", "arguments": arguments}}


CHAT_HISTORY = [
    WHERE,
    {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [called("call_1", '{"where":"up"}'), called("call_2", '{"where":"down"}')],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "nothing"},
    {"role": "tool", "tool_call_id": "call_2", "content": "a cat"},
]
MESSAGES_TOOLS = {"tools": [{"name": "look", "description": "Look there.", "input_schema": SCHEMA}]}
FUNCTION = {"name": "look", "description": "Look there.", "parameters": SCHEMA}
CHAT_TOOLS = {"tools": [{"type": "function", "function": FUNCTION}]}
SYSTEM = {"role": "system", "content": "Be brief."}
THOUGHT = {"type": "thinking", "thinking": "Up?", "signature": ""}
AGAIN = {"role": "user", "content": "And now?"}

ASKED = {
    "messages": {"model": "random", "max_tokens": 12, "messages": [WHERE]},
    "chat": {"model": "random", "max_tokens": 12, "messages": [WHERE]},
}
CASES = {
    "messages": {
        "plain": {},
        "system": {"system": [{"type": "text", "text": "Be brief."}]},
        "tools": {"system": "Be brief.", **MESSAGES_TOOLS},
        "results": {"system": "Be brief.", "messages": MESSAGES_HISTORY, **MESSAGES_TOOLS},
        "another model": {"model": "nobody has it"},
    },
    "chat": {
        "plain": {},
        "system": {"messages": [SYSTEM, WHERE]},
        "tools": {"messages": [SYSTEM, WHERE], **CHAT_TOOLS},
        "results": {"messages": [SYSTEM, *CHAT_HISTORY], **CHAT_TOOLS},
        "stop": {"max_tokens": 200, "stop": [" to", " in", " not", " the"]},
        "another model": {"model": "nobody has it"},
    },
}
THINKING_CASES = {
    "messages": {
        "thinking": {},
        "replayed": {
            "messages": [
                WHERE,
                {"role": "assistant", "content": [THOUGHT, {"type": "text", "text": "Down."}]},
                AGAIN,
            ]
        },
    },
    "chat": {
        "thinking": {},
        "replayed": {
            "messages": [
                WHERE,
                {"role": "assistant", "content": "Down.", "reasoning_content": "Up?"},
                AGAIN,
            ]
        },
    },
}
REFUSED = {
    "messages": {
        "long": TOO_LONG,
        "bad": {"messages": [{"role": "user", "content": 7}]},
    },
    "chat": {
        "long": TOO_LONG,
        "bad": {"messages": [{"role": "user", "content": [{"type": "hologram"}]}]},
    },
}
OTHER = {"messages": "openai", "chat": "anthropic"}
"""The dialect by way of which each API's clients are answered."""
EVENTS = {
    "messages": TypeAdapter(RawMessageStreamEvent),
    "chat": TypeAdapter(ChatCompletionChunk),
}


@pytest.fixture(scope="module")
def thinker(tmp_path_factory):
    """A server whose model always thinks, and has little room."""
    folder = tmp_path_factory.mktemp("thinker")
    model = write_model(folder / "tiny.gguf")
    settings = {"chat_template": THINKING, "sampling__ignore_eos": True, "n_ctx": 4096}
    with LlamaServer(model, slot_save_path=f"{folder}/", **settings) as server:
        yield server


def proxies(server):
    return {api: Proxy(server.url, "--dialect", dialect) for api, dialect in OTHER.items()}


@pytest.fixture(scope="module")
def asked(llama, thinker, request):
    """What a language's SDKs were told, by (api, case, how), without and with the proxy.

    Each answer starts from an empty slot, so that both were evaluated alike.
    """
    known = {}
    before = {llama: proxies(llama), thinker: proxies(thinker)}

    def jobs_of():
        for server, cases in ((llama, CASES), (thinker, THINKING_CASES)):
            for api, case, how in _places(cases, HOW):
                yield server, api, case, how, cases[api][case]
        for api, case, how in _places(REFUSED, HOW):
            yield thinker, api, case, how, REFUSED[api][case]
        for api in CASES:
            yield llama, api, "models", "models", {}
        for case, body in CASES["messages"].items():
            yield llama, "messages", case, "count", body

    def ask(language):
        if language not in known:
            function = python
            if language == "javascript":
                function = javascript_in(request.getfixturevalue("_packages"))
            jobs, places = [], []
            for server, api, case, how, more in jobs_of():
                body = ASKED[api] | more
                if how == "count":
                    del body["max_tokens"]
                if api == "chat" and how in ("events", "helper"):
                    body |= {"stream_options": {"include_usage": True}}
                for where in (server.url, before[server][api].url):
                    job = {"url": where, "api": api, "how": how, "body": body}
                    job["first"] = f"{server.url}/slots/0?action=erase"
                    jobs.append(job if how == "count" else job | {"extra": {"temperature": 0}})
                places.append((api, case, how))
            answers = iter(function(jobs))
            known[language] = {place: (next(answers), next(answers)) for place in places}
        return known[language]

    yield ask
    for proxy in itertools.chain.from_iterable(each.values() for each in before.values()):
        assert "Traceback" not in proxy.log()
        proxy.close()


HOW = ("create", "events", "helper")


def _places(cases, how):
    return [(api, case, one) for api in cases for case in cases[api] for one in how]


def each(cases, *how):
    """Run a test for every language, API, case and way to ask."""
    places = [(language, *place) for language in LANGUAGES for place in _places(cases, how)]
    return pytest.mark.parametrize(
        ("language", "api", "case", "how"), places, ids=["-".join(place) for place in places]
    )


def compared(found, api, how):
    """What an answer says, or what the SDK raised by itself: a chat helper does at a length."""
    if "error" in found:
        return found["error"]["chain"][0]
    if how != "events":
        return SAID[api](found["value"])
    return chunks_said(found["value"])


@each(CASES, "create", "helper")
def test_the_answer_is_the_server_s_own(asked, language, api, case, how):
    """The same text, ending and number of tokens as by the server's own API."""
    direct, through = asked(language)[api, case, how]
    assert compared(through, api, how) == compared(direct, api, how)
    if how == "create":
        said = compared(through, api, how)
        assert said["prompt"] > 20
        assert case == "stop" or said["output"] == 12
        assert said["reason"] in ("stop", "length", "max_tokens")


@each(THINKING_CASES, "create", "helper")
def test_thinking_is_the_server_s_own(asked, language, api, case, how):
    """As a block of its own there, as ``reasoning_content`` here; a replayed one is read."""
    direct, through = asked(language)[api, case, how]
    assert compared(through, api, how) == compared(direct, api, how)
    if how == "create":
        said = compared(through, api, how)
        thought = said["content"][0][1] if api == "messages" else said["thinking"]
        assert len(thought) > 12


@each({"chat": CASES["chat"] | THINKING_CASES["chat"]}, "events")
def test_the_chunks_say_what_the_server_s_own_say(asked, language, api, case, how):
    """Put together, whatever the pieces were."""
    direct, through = asked(language)[api, case, how]
    assert compared(through, api, how) == compared(direct, api, how)


@each({api: CASES[api] | THINKING_CASES[api] for api in CASES}, "events")
def test_every_event_is_of_the_sdk_s_own_types(asked, language, api, case, how):
    """None is new to it, none lacks anything, and none has the wrong type anywhere."""
    events = asked(language)[api, case, how][1]["value"]
    assert len(events) > (2 if case == "stop" else 12)
    for event in events:
        EVENTS[api].validate_python(event)


@each(REFUSED, "create", "events", "helper")
def test_a_refusal_is_the_sdk_s_own_exception(asked, language, api, case, how):
    """400 either way, of the same class, and it says what is wrong."""
    direct, through = (found["error"] for found in asked(language)[api, case, how])
    assert (through["status"], direct["status"]) == (400, 400)
    classes = [found["chain"][0].partition(":")[0] for found in (direct, through)]
    assert classes == ["BadRequestError"] * 2
    said = {
        ("messages", "long"): "prompt is too long: ",
        ("chat", "long"): "maximum context length is 4096 tokens",
        ("messages", "bad"): "/messages/0/content",
        ("chat", "bad"): "/messages/0/content/0",
    }[api, case]
    assert said in through["chain"][0]
    inner = through["body"].get("error", through["body"])
    assert inner["type"] == "invalid_request_error"
    if (api, case) == ("chat", "long"):
        assert inner["code"] == "context_length_exceeded"


@pytest.mark.parametrize("case", CASES["messages"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_tokens_are_counted_as_the_server_counts(asked, language, case):
    """And as many as the answer's usage says."""
    found = asked(language)
    direct, through = found["messages", case, "count"]
    assert through == direct
    said = compared(found["messages", case, "create"][1], "messages", "create")
    assert through["value"]["input_tokens"] == said["prompt"]


@pytest.mark.parametrize("api", CASES)
@pytest.mark.parametrize("language", LANGUAGES)
def test_models_are_listed(asked, language, api):
    """The same names; what else is known of them is told in the client's words."""
    direct, through = asked(language)[api, "models", "models"]
    assert [model["id"] for model in through["value"]] == ["random"]
    assert [model["id"] for model in direct["value"]] == ["random"]
    [model] = through["value"]
    kind = {"messages": ("type", "max_input_tokens"), "chat": ("object", "owned_by")}[api]
    assert model[kind[0]] == "model"
    assert model[kind[1]]
