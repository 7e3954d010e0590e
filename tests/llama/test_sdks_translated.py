"""Anthropic's SDKs through the translation, against the same server's own Messages API.

llama-server speaks both APIs, so that each SDK can ask twice: the server itself, and by way of Chat
Completions. Python and JavaScript, whole answers and streams.
"""

from __future__ import annotations

import pytest
from cacheproxy_demo.embedded import LlamaServer, write_model

from cacheproxy.child.process import ChildProxy as Proxy

pytest.importorskip("anthropic")

from anthropic.types import RawMessageStreamEvent
from pydantic import TypeAdapter

from tests.sdk.conftest import _packages  # noqa: F401 (a fixture)
from tests.sdk.translated import javascript_in, message_said, python

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

HISTORY = [
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
TOOLS = {"tools": [{"name": "look", "description": "Look there.", "input_schema": SCHEMA}]}
THOUGHT = {"type": "thinking", "thinking": "Up?", "signature": ""}
AGAIN = {"role": "user", "content": "And now?"}

ASKED = {"model": "random", "max_tokens": 12, "messages": [WHERE]}
CASES = {
    "plain": {},
    "system": {"system": [{"type": "text", "text": "Be brief."}]},
    "tools": {"system": "Be brief.", **TOOLS},
    "results": {"system": "Be brief.", "messages": HISTORY, **TOOLS},
    "another model": {"model": "nobody has it"},
}
THINKING_CASES = {
    "thinking": {},
    "replayed": {
        "messages": [
            WHERE,
            {"role": "assistant", "content": [THOUGHT, {"type": "text", "text": "Down."}]},
            AGAIN,
        ]
    },
}
REFUSED = {
    "long": TOO_LONG,
    "bad": {"messages": [{"role": "user", "content": 7}]},
}
EVENT = TypeAdapter(RawMessageStreamEvent)


@pytest.fixture(scope="module")
def thinker(tmp_path_factory):
    """A server whose model always thinks, and has little room."""
    folder = tmp_path_factory.mktemp("thinker")
    model = write_model(folder / "tiny.gguf")
    settings = {"chat_template": THINKING, "sampling__ignore_eos": True, "n_ctx": 4096}
    with LlamaServer(model, slot_save_path=f"{folder}/", **settings) as server:
        yield server


@pytest.fixture(scope="module")
def asked(llama, thinker, request):
    """What a language's SDK was told, by (case, how), without and with the proxy.

    Each answer starts from an empty slot, so that both were evaluated alike.
    """
    known = {}
    before = {server: Proxy(server.url, "--dialect", "openai") for server in (llama, thinker)}

    def jobs_of():
        for server, cases in ((llama, CASES), (thinker, THINKING_CASES | REFUSED)):
            for case, how in _places(cases, HOW):
                yield server, case, how, cases[case]
        yield llama, "models", "models", {}
        for case, body in CASES.items():
            yield llama, case, "count", body

    def ask(language):
        if language not in known:
            function = python
            if language == "javascript":
                function = javascript_in(request.getfixturevalue("_packages"))
            jobs, places = [], []
            for server, case, how, more in jobs_of():
                body = ASKED | more
                if how == "count":
                    del body["max_tokens"]
                for where in (server.url, before[server].url):
                    job = {"url": where, "how": how, "body": body}
                    job["first"] = f"{server.url}/slots/0?action=erase"
                    jobs.append(job if how == "count" else job | {"extra": {"temperature": 0}})
                places.append((case, how))
            answers = iter(function(jobs))
            known[language] = {place: (next(answers), next(answers)) for place in places}
        return known[language]

    yield ask
    for proxy in before.values():
        assert "Traceback" not in proxy.log()
        proxy.close()


HOW = ("create", "events", "helper")


def _places(cases, how):
    return [(case, one) for case in cases for one in how]


def each(cases, *how):
    """Run a test for every language, case and way to ask."""
    places = [(language, *place) for language in LANGUAGES for place in _places(cases, how)]
    return pytest.mark.parametrize(
        ("language", "case", "how"), places, ids=["-".join(place) for place in places]
    )


@each(CASES, "create", "helper")
def test_the_answer_is_the_server_s_own(asked, language, case, how):
    """The same text, ending and number of tokens as by the server's own API."""
    direct, through = (message_said(found["value"]) for found in asked(language)[case, how])
    assert through == direct
    assert through["prompt"] > 20
    assert through["output"] == 12
    assert through["reason"] == "max_tokens"


@each(THINKING_CASES, "create", "helper")
def test_thinking_is_the_server_s_own(asked, language, case, how):
    """As a block of its own there, as ``reasoning_content`` here; a replayed one is read."""
    direct, through = (message_said(found["value"]) for found in asked(language)[case, how])
    assert through == direct
    assert len(through["content"][0][1]) > 12


@each(CASES | THINKING_CASES, "events")
def test_every_event_is_of_the_sdk_s_own_types(asked, language, case, how):
    """None is new to it, none lacks anything, and none has the wrong type anywhere."""
    events = asked(language)[case, how][1]["value"]
    assert len(events) > 12
    for event in events:
        EVENT.validate_python(event)


@each(REFUSED, "create", "events", "helper")
def test_a_refusal_is_the_sdk_s_own_exception(asked, language, case, how):
    """400 either way, of the same class, and it says what is wrong."""
    direct, through = (found["error"] for found in asked(language)[case, how])
    assert (through["status"], direct["status"]) == (400, 400)
    classes = [found["chain"][0].partition(":")[0] for found in (direct, through)]
    assert classes == ["BadRequestError"] * 2
    said = {"long": "prompt is too long: ", "bad": "/messages/0/content"}[case]
    assert said in through["chain"][0]
    assert through["body"]["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("language", LANGUAGES)
def test_tokens_are_counted_as_the_server_counts(asked, language, case):
    """And as many as the answer's usage says."""
    found = asked(language)
    direct, through = found[case, "count"]
    assert through == direct
    said = message_said(found[case, "create"][1]["value"])
    assert through["value"]["input_tokens"] == said["prompt"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_models_are_listed(asked, language):
    """The same names; what else is known of them is told in the client's words."""
    direct, through = asked(language)["models", "models"]
    assert [model["id"] for model in through["value"]] == ["random"]
    assert [model["id"] for model in direct["value"]] == ["random"]
    [model] = through["value"]
    assert model["type"] == "model"
    assert model["max_input_tokens"]
