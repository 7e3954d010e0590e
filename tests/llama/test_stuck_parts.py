"""Shapes that end a conversation at the real server: refused, healed, and whole a turn later."""

import json

import pytest

from cacheproxy.core.adapt.adaptation import Refusal
from cacheproxy.core.adapt.fields import RefusedFields
from cacheproxy.core.adapt.overflow import overflow_answer
from cacheproxy.core.adapt.parts import UnreadableParts
from cacheproxy.core.conversation.usage import usage_of
from cacheproxy.core.dialects.errors import details_of, said
from cacheproxy.core.document.edits import apply
from cacheproxy.testing import request
from cacheproxy.translate.translation import MessagesToChat

from .replay import by_way_of, erase, post
from .vendors import FOLDER

pytestmark = pytest.mark.llama

CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
ADAPTATIONS = (UnreadableParts(), RefusedFields())
END = 24
"""Tokens that a prompt ends with, which the next turn may not repeat."""
MOST = 6
"""Resends of one request."""
RANDOM = "The model produced output that does not match the expected"
"""The server could not parse what its random model said: the request itself was taken."""
TEMPLATES = ("Qwen3.5-4B", "gpt-oss-120b", "GLM-4.7-Flash")
LONG = "Read the file and say what it does, in a few words. " * 12
DATA = "iVBORw0KGgo="
URL = f"data:image/png;base64,{DATA}"
IMAGE = {"type": "image_url", "image_url": {"url": URL}}
AUDIO = {"type": "input_audio", "input_audio": {"data": DATA, "format": "wav"}}
FILE = {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:a/pdf;base64,{DATA}"}}
SEEN = {"type": "input_image", "image_url": URL}
BLOCK = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}}
SCHEMA = {"type": "object", "properties": {"p": {"type": "string"}}}
TOOL = {"type": "function", "function": {"name": "ls", "description": "", "parameters": SCHEMA}}
CALL = {"id": "c", "type": "function", "function": {"name": "ls", "arguments": "{}"}}


def text(words, kind="text"):
    return {"type": kind, "text": words}


def user(*content):
    return {"role": "user", "content": list(content) if content else LONG}


def assistant(*content, **more):
    return {"role": "assistant", "content": list(content), **more}


def item(kind, **more):
    return {"type": kind, **more}


def message(role, *content):
    return {"type": "message", "role": role, "content": list(content)}


SAID = message("assistant", text("y", "output_text"))
CALLED = item("function_call", call_id="c", name="ls", arguments="{}")


def returned(*output):
    return item("function_call_output", call_id="c", output=list(output))


SHAPES = {
    "an image": (CHAT, [user(text(LONG), IMAGE)]),
    "an image by its URL": (
        CHAT,
        [user(text(LONG), {"type": "image_url", "image_url": {"url": "http://127.0.0.1:1/x.png"}})],
    ),
    "audio": (CHAT, [user(text(LONG), AUDIO)]),
    "video": (CHAT, [user(text(LONG), {"type": "video_url", "video_url": {"url": "x"}})]),
    "a file": (CHAT, [user(text(LONG), FILE)]),
    "all of them": (CHAT, [user(text(LONG), FILE, IMAGE, AUDIO, {"type": "new"})]),
    "an image in a result": (
        CHAT,
        [
            user(),
            {"role": "assistant", "content": "", "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c", "content": [text("x"), IMAGE]},
        ],
    ),
    "an image in the system text": (
        CHAT,
        [{"role": "system", "content": [text("x"), IMAGE]}, user()],
    ),
    "a refusal": (CHAT, [user(), assistant({"type": "refusal", "refusal": "no"})]),
    "reasoning in a block": (
        CHAT,
        [user(), assistant({"type": "thinking", "thinking": "x"}, text("y"))],
    ),
    "another API's text": (CHAT, [user(text(LONG, "input_text"))]),
    "another API's image": (CHAT, [user(text(LONG), BLOCK)]),
    "a text without a type": (CHAT, [user({"text": LONG})]),
    "a bare text": (CHAT, [user(LONG, "x")]),
    "messages: an image": (MESSAGES, [user(text(LONG), BLOCK)]),
    "messages: an image in a result": (
        MESSAGES,
        [
            user(),
            assistant({"type": "tool_use", "id": "c", "name": "ls", "input": {}}),
            user({"type": "tool_result", "tool_use_id": "c", "content": [text("x"), BLOCK]}),
        ],
    ),
    "responses: an image": (RESPONSES, [user(text(LONG, "input_text"), SEEN)]),
    "responses: a file": (
        RESPONSES,
        [user(text(LONG, "input_text"), item("input_file", filename="a.pdf", file_data=URL))],
    ),
    "responses: audio": (RESPONSES, [user(text(LONG, "input_text"), AUDIO)]),
    "responses: an image in a result": (RESPONSES, [user(), CALLED, returned(SEEN)]),
    "responses: a file in a result": (RESPONSES, [user(), CALLED, returned(item("input_file"))]),
    "responses: a result that is no text": (
        RESPONSES,
        [user(), CALLED, item("function_call_output", call_id="c", output={"a": 1})],
    ),
    "responses: another API's text": (RESPONSES, [user(text(LONG))]),
    "responses: a message without a type": (RESPONSES, [user(), assistant(text("y"))]),
    "responses: a refusal": (
        RESPONSES,
        [user(), message("assistant", {"type": "refusal", "refusal": "no"})],
    ),
    "responses: another's reasoning": (
        RESPONSES,
        [user(), item("reasoning", id="r", summary=[], encrypted_content="z"), SAID],
    ),
    "responses: reasoning without content": (
        RESPONSES,
        [user(), item("reasoning", id="r", summary=[], content=[]), SAID],
    ),
    "responses: reasoning without a summary": (
        RESPONSES,
        [user(), item("reasoning", id="r", content=[text("z", "reasoning_text")]), SAID],
    ),
    "responses: a reference": (RESPONSES, [item("item_reference", id="x"), user()]),
    "responses: a search": (
        RESPONSES,
        [user(), item("web_search_call", id="w", action={"type": "search", "query": "q"}), SAID],
    ),
    "responses: an image made": (
        RESPONSES,
        [user(), item("image_generation_call", id="i", result=DATA), SAID],
    ),
    "responses: a compaction": (
        RESPONSES,
        [item("compaction", encrypted_content="x"), SAID, user()],
    ),
    "responses: a custom tool": (
        RESPONSES,
        [
            user(),
            item("custom_tool_call", call_id="c", name="patch", input="x"),
            item("custom_tool_call_output", call_id="c", output="done"),
        ],
    ),
    "responses: a shell": (
        RESPONSES,
        [
            user(),
            item("local_shell_call", call_id="c", action={"command": ["ls"]}),
            item("local_shell_call_output", call_id="c", output="x"),
        ],
    ),
    "several answers": (CHAT, [user()], {"n": 2}),
    "log probabilities": (
        CHAT,
        [user()],
        {"tools": [TOOL], "logprobs": True, "stream": True, "top_logprobs": 2},
    ),
    "top ones alone": (CHAT, [user()], {"top_logprobs": 2}),
    "responses: a history that is here": (
        RESPONSES,
        [user(), SAID, user()],
        {"previous_response_id": "r"},
    ),
}
"""Paths, messages and other members of requests: a sample of what llama.cpp refuses."""
STAYS = {
    "a history that is elsewhere": (RESPONSES, [user()], {"previous_response_id": "r"}),
    "nothing that remains": (RESPONSES, [item("item_reference", id="x")], {}),
}
"""What cannot be healed: the model would answer as if nothing had been said."""


def body_of(path, items, **more):
    root, most = ("input", "max_output_tokens") if path == RESPONSES else ("messages", "max_tokens")
    return {"model": "random", most: 4, "temperature": 0, root: items, **more}


def send(url, came, needs):
    """Status and answer to ``came`` as ``needs`` edit it; a random model's words are no refusal."""
    edits = [
        edit for each, need in zip(ADAPTATIONS, needs, strict=True) if need
        for edit in each.edits(came, need)
    ]  # fmt: skip
    status, answer = post(url, came.target, apply(came.document, edits))
    return (200 if RANDOM.encode() in answer else status), answer


def heal(url, came, needs):
    """Send ``came`` until it is taken, or nothing heals; return status, needs and resends."""
    for times in range(MOST + 1):
        status, answer = send(url, came, needs)
        code = str(details_of(json.loads(answer)).get("type")) if status >= 400 else ""
        refusal = Refusal(status, said(status, answer), code)
        found = [
            each.refused(refusal, came, need) for each, need in zip(ADAPTATIONS, needs, strict=True)
        ]
        if status < 400 or not any(
            one not in (None, need) for one, need in zip(found, needs, strict=True)
        ):
            return status, needs, times
        needs = [one or need for one, need in zip(found, needs, strict=True)]
    return status, needs, times


def next_turn(path, items):
    more = [SAID, user()] if path == RESPONSES else [assistant(text("y")), user()]
    return [
        *items,
        *(more if items[-1].get("role") != "assistant" and items[-1] is not SAID else more[1:]),
    ]


@pytest.mark.parametrize("template", ["inline", *TEMPLATES])
def test_a_refused_shape_is_healed_and_the_next_turn_needs_no_refusal(serve, template):
    given = template if template == "inline" else (FOLDER / f"{template}.jinja").read_text()
    url = serve(given, text=LONG, n_ctx=8192).url
    wrong = {}
    for name, (path, items, *rest) in SHAPES.items():
        more = rest[0] if rest else {}
        erase(url)
        came = request(body_of(path, items, **more), path)
        if send(url, came, [None] * 2)[0] < 400:
            wrong[name] = "is taken as it came"
            continue
        status, needs, times = heal(url, came, [None] * 2)
        first = usage_of(json.loads(send(url, came, needs)[1])) if not more.get("stream") else None
        facts = [need.facts if need else {} for need in needs]
        later = request(body_of(path, next_turn(path, items), **more), path)
        again = [each.needed(later, known) for each, known in zip(ADAPTATIONS, facts, strict=True)]
        after, answer = send(url, later, again)
        if status != 200 or after != 200:
            wrong[name] = (status, times, after, said(after, answer))
        elif first is not None and template == "inline":  # others drop reasoning, or repeat less
            reused = usage_of(json.loads(answer)).reused
            if reused < first.prompt - END:
                wrong[name] = f"reused {reused} of {first.prompt}"
    assert not wrong


TRANSLATED = [name for name in SHAPES if SHAPES[name][0] == MESSAGES]


@pytest.mark.parametrize("name", TRANSLATED)
def test_a_translated_request_is_healed_by_the_chat_servers_words(serve, name):
    url = serve("inline", text=LONG).url
    path, items = SHAPES[name]
    came = request(body_of(path, items, output_config={"effort": "high"}), path)
    status, answer = by_way_of(url, MessagesToChat(came))
    assert status >= 400
    need = ADAPTATIONS[0].refused(Refusal(status, said(status, answer)), came, None)
    edited = came.with_body(apply(came.document, ADAPTATIONS[0].edits(came, need)))
    assert by_way_of(url, MessagesToChat(edited))[0] == 200


def test_what_has_no_word_is_taken(serve):
    """Translation words it by itself: no refusal is needed."""
    url = serve("inline", text=LONG).url
    items = [user(text(LONG), item("new"), item("document", source={"type": "url", "url": "x"}))]
    tools = [{"type": "bash_20250124", "name": "bash"}]
    came = request(body_of(MESSAGES, items, tools=tools), MESSAGES)
    assert by_way_of(url, MessagesToChat(came))[0] == 200


def test_what_cannot_be_healed_stays_refused(serve):
    url = serve("inline", text=LONG).url
    for path, items, more in STAYS.values():
        assert heal(url, request(body_of(path, items, **more), path), [None] * 2)[::2] == (400, 0)


@pytest.mark.parametrize("path", [CHAT, MESSAGES, RESPONSES])
def test_the_words_of_an_overflow(serve, path):
    url = serve("inline", text=LONG, n_ctx=512).url
    came = request(body_of(path, [{"role": "user", "content": LONG * 20}]), path)
    status, answer = send(url, came, [None] * 2)
    refusal = Refusal(status, said(status, answer), details_of(json.loads(answer))["type"])
    told = overflow_answer(refusal, came.dialect).body.decode()
    assert (
        "prompt is too long: " if path == MESSAGES else '"code":"context_length_exceeded"'
    ) in told
