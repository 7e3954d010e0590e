"""What a server cannot read becomes a line of text; what a user wrote or a tool returned stays."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.adapt.adaptation import Need
from cacheproxy.core.adapt.parts import UnreadableParts, _found
from cacheproxy.core.adapt.wording import worded
from cacheproxy.core.document.edits import apply
from cacheproxy.testing import request

from .mending import PATHS, later, mended, refusal

PARTS = UnreadableParts()
PNG = "data:image/png;base64,AAAAAA=="
IMAGE = {"type": "image_url", "image_url": {"url": PNG}}
SOURCE = {"type": "base64", "media_type": "image/png", "data": "AAAAAA=="}
BLOCK = {"type": "image", "source": SOURCE}
INPUT = {"type": "input_image", "image_url": PNG}
LINE = "[image not shown: image/png, 4 bytes; the model server takes no images]"
SEE = {"type": "text", "text": "see"}
BELOW = "[image: see below]"
CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]}
USED = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
LLAMA = {
    "image": refusal(
        "image input is not supported - hint: you may need to provide the mmproj", 500
    ),
    "audio": refusal(
        "audio input is not supported - hint: you may need to provide the mmproj", 500
    ),
    "type": "unsupported content[].type",
    "item": "Cannot determine type of 'item'",
    "result": "Output of tool call should be 'Input text'",
    "one of": "'type' must be one of 'input_text', 'input_image', or 'input_file'",
}


def text(words, kind="text"):
    return {"type": kind, "text": words}


def said(api, content, *words):
    """The content of a user's message after the refusals ``words``."""
    root = "input" if api == "responses" else "messages"
    body, _ = mended(PARTS, api, {root: [{"role": "user", "content": content}]}, *words)
    return None if body is None else body[root][0]["content"]


@pytest.mark.parametrize(
    "words",
    [
        LLAMA["image"],
        "m is not a multimodal model",
        "At most 0 image(s) may be provided in one prompt.",
        "this model does not support image input (ref: 1)",
        "This model does not support images",
        "this model is missing data required for image input",
        "Model does not support images. Please use a model that does.",
        refusal("Only 'text' content type is supported.", 404),
        'Unsupported content part type: "image_url"; messages = [{"type": "text"}]',
        "messages[0]: unknown variant `image_url`, expected `text`",
        refusal("Input should be 'text'", 422, "messages", 0, "content", "list[Part]", 1, "type"),
    ],
)
def test_words_of_servers_about_images(words):
    assert said("chat", [SEE, IMAGE], words) == [SEE, text(LINE)]


@pytest.mark.parametrize(
    "words",
    [
        "roles must alternate", "no image today", "Extra inputs are not permitted", "out of memory",
        refusal("image input is not supported", 401), refusal("image input is not supported", 503),
        refusal("Input should be 'text'", 422, "tools", 0, "type"),
    ],
)  # fmt: skip
def test_words_about_something_else(words):
    assert said("chat", [SEE, IMAGE], words) is None


@pytest.mark.parametrize(
    ("api", "content", "words", "expected"),
    [
        ("messages", [SEE, BLOCK], LLAMA["image"], [SEE, text(LINE)]),
        ("responses", [INPUT], LLAMA["image"], [text(LINE, "input_text")]),
        (
            "chat",
            [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}],
            LLAMA["audio"],
            [text("[audio not shown: wav, 3 bytes; the model server takes no audio]")],
        ),
        (
            "responses",
            [{"type": "input_file", "filename": "a\nb.pdf", "file_data": "data:a/pdf;base64,AA=="}],
            "'input_file' is not supported by llamacpp at this moment",
            [
                text(
                    '[file not shown: "a b.pdf", a/pdf, 1 bytes; the model server takes no files]',
                    "input_text",
                )
            ],
        ),
        # an odd one is at fault before an image is
        ("chat", [IMAGE, {"type": "zz"}], LLAMA["type"], [IMAGE, text(worded({"type": "zz"}))]),
        # but for the one that is named, and those that the server takes
        ("chat", [{"type": "zz"}, IMAGE], "Unknown part 'image_url'", [{"type": "zz"}, text(LINE)]),
        # texts stay, in the spelling of the API
        ("chat", [text("x", "input_text")], LLAMA["type"], [text("x")]),
        ("chat", [{"text": "x"}], LLAMA["type"], [text("x")]),
        ("chat", ["x", SEE], LLAMA["type"], [text("x"), SEE]),
        ("responses", [text("x")], LLAMA["one of"], [text("x", "input_text")]),
        ("chat", [{"type": "refusal", "refusal": "no"}], LLAMA["type"], [text("no")]),
        (
            "messages",
            [{"type": "document", "title": "t", "source": {"type": "text", "data": "x"}}],
            refusal("Jinja: No user query found in messages.", 500),
            [text("t\nx")],
        ),
        (
            "messages",
            [{"type": "search_result", "title": "t", "source": "s", "content": [SEE]}],
            "Input tag 'search_result' found using 'type' does not match any of: 'text', 'image'",
            [text("t\ns\nsee")],
        ),
        # reasoning goes, unless nothing else is there
        ("chat", [{"type": "thinking", "thinking": "x"}, SEE], LLAMA["type"], [SEE]),
        (
            "messages",
            [{"type": "redacted_thinking", "data": "x"}],
            "conversation roles must alternate",
            [text(worded({"type": "redacted_thinking"}))],
        ),
        # what the server would have to fetch
        (
            "chat",
            [IMAGE, {"type": "image_url", "image_url": {"url": "http://x/y.png"}}],
            "invalid image input",
            [IMAGE, text("[image not shown: the model server takes no images]")],
        ),
        # so many, and no more: the first stay
        (
            "chat",
            [IMAGE, IMAGE, IMAGE],
            "At most 2 image(s) may be provided in one prompt.",
            [
                IMAGE,
                IMAGE,
                text(
                    "[image not shown: image/png, 4 bytes; the model server takes no more than 2 "
                    "of type image in a prompt]"
                ),
            ],
        ),
        # vLLM's words name what it knows, and repeat what came
        (
            "messages",
            [{"type": "tool_reference", "tool_name": "f"}, {"type": "document", "title": "t"}],
            (
                "[{'loc': ('body', 'str'), 'msg': 'Input should be a valid string', 'input': [7]}, "
                "{'loc': (1,), 'msg': \"Input should be 'text', 'image' or 'tool_reference'\"}]"
            ),
            [
                {"type": "tool_reference", "tool_name": "f"},
                text('[file not shown: "t"; the model server takes no files]'),
            ],
        ),
        (
            "messages",
            [{"type": "image", "source": {"type": "file", "file_id": "f"}}],
            "invalid image source",
            [
                text(
                    "[image not shown: the model server does not have what was uploaded elsewhere]"
                )
            ],
        ),
    ],
)  # fmt: skip
def test_what_stands_in_the_place(api, content, words, expected):
    assert said(api, content, words) == expected


def test_images_of_ollama_stand_beside_the_text():
    one = {"role": "user", "content": "see", "images": ["AAAA"]}
    body, facts = mended(PARTS, "ollama", {"messages": [one]}, LLAMA["image"])
    line = "[image not shown: 3 bytes; the model server takes no images]"
    assert body == {"messages": [{"role": "user", "content": f"see\n{line}"}]}
    silent = {"messages": [{"role": "user", "images": ["AAAA"]}]}
    assert later(PARTS, "ollama", silent, facts)["messages"][0] == {"role": "user", "content": line}


# In what tools returned.

RESULTS = {
    "chat": (
        "messages",
        [CALL, *({"role": "tool", "content": [SEE, IMAGE]} for _ in "ab")],
        [{"role": "user", "content": [IMAGE, IMAGE]}],
    ),
    "messages": (
        "messages",
        [
            {"role": "assistant", "content": [USED]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c", "content": [SEE, BLOCK]},
                    text("and?"),
                ],
            },
        ],
        [BLOCK, text("and?")],
    ),
    "responses": (
        "input",
        [
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": [INPUT]},
        ],
        [{"type": "message", "role": "user", "content": [INPUT]}],
    ),
}


@pytest.mark.parametrize("api", RESULTS)
@pytest.mark.parametrize("more", [[], [{"role": "user", "content": "go on"}]])
def test_an_image_in_a_result_goes_behind_it_and_is_worded_where_that_is_refused(api, more):
    root, items, behind = RESULTS[api]
    body, facts = mended(PARTS, api, {root: items + more}, LLAMA["result"])
    if api == "messages":
        assert body[root][1]["content"][1:] == behind
    else:
        assert body[root][len(items) :] == behind + more
    assert BELOW in json.dumps(body[root][: len(items)])
    assert later(PARTS, api, {root: items + more}, facts) == body
    both, _ = mended(PARTS, api, {root: items + more}, LLAMA["result"], LLAMA["image"])
    assert len(both[root]) == len(items + more)
    assert json.dumps(LINE)[1:-1] in json.dumps(both)
    assert "AAAA" not in json.dumps(both)


def test_images_of_one_role_only():
    items = [
        {"role": "system", "content": [IMAGE]},
        {"role": "user", "content": [IMAGE]},
        CALL,
        {"role": "tool", "content": [IMAGE]},
    ]
    body, _ = mended(PARTS, "chat", {"messages": items}, "System message cannot contain images.")
    assert [LINE in json.dumps(one) for one in body["messages"]] == [True, False, False, False]
    words = "Image URLs are only allowed for messages with role 'user', but this has role 'tool'"
    body, _ = mended(PARTS, "chat", {"messages": items}, words)
    assert body["messages"][1] == items[1]
    assert body["messages"][-1] == {"role": "user", "content": [IMAGE]}


# Items of the Responses API.

SAID = {"type": "message", "role": "assistant", "content": [text("y", "output_text")]}


@pytest.mark.parametrize(
    ("item", "words", "expected"),
    [
        ({"type": "item_reference", "id": "x"}, LLAMA["item"], []),
        ({"type": "web_search_call", "id": "x", "action": {}}, LLAMA["item"], []),
        ({"type": "reasoning", "summary": []}, "item['content'] is not an array", []),
        ({"type": "reasoning", "summary": [], "content": []}, "item['content'] is empty", []),
        (
            {"type": "reasoning", "content": [text("x", "reasoning_text")]},
            LLAMA["item"],
            [{"type": "reasoning", "content": [text("x", "reasoning_text")], "summary": []}],
        ),
        (
            {"role": "assistant", "content": "x"},
            LLAMA["item"],
            [{"role": "assistant", "content": "x", "type": "message"}],
        ),
        (
            {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "*** x"},
            LLAMA["item"],
            [
                {
                    "type": "function_call",
                    "call_id": "c",
                    "name": "patch",
                    "arguments": '{"input":"*** x"}',
                }
            ],
        ),
        (
            {"type": "custom_tool_call_output", "call_id": "c", "output": "done"},
            "unknown input item type: custom_tool_call_output",
            [{"type": "function_call_output", "call_id": "c", "output": "done"}],
        ),
        (
            {"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "x"}]},
            LLAMA["item"],
            [{"type": "function_call_output", "call_id": "c", "output": '[{"stdout":"x"}]'}],
        ),
        (
            {"type": "local_shell_call", "call_id": "c", "action": {"command": ["ls"]}},
            "unknown variant `local_shell_call`, expected one of `message`",
            [
                {
                    "type": "function_call",
                    "call_id": "c",
                    "name": "local_shell",
                    "arguments": '{"action":{"command":["ls"]}}',
                }
            ],
        ),
        (
            {"type": "compaction", "encrypted_content": "x"},
            LLAMA["item"],
            [
                {
                    "type": "message",
                    "role": "user",
                    "content": [
                        text(
                            "[compaction not shown: earlier parts of this conversation were "
                            "compacted by another provider]",
                            "input_text",
                        )
                    ],
                }
            ],
        ),
    ],
)
def test_items(item, words, expected):
    items = [{"role": "user", "content": "hi"}, item, SAID]
    body, _ = mended(PARTS, "responses", {"input": items}, words)
    assert body["input"] == [items[0], *expected, SAID]


def test_an_input_is_never_empty():
    body, _ = mended(PARTS, "responses", {"input": [{"type": "item_reference"}]}, LLAMA["item"])
    assert body is None


def test_what_is_named_goes_alone():
    items = [{"type": kind, "id": "x"} for kind in ("web_search_call", "image_generation_call")]
    words = "unknown variant `web_search_call`, expected one of `message`, `image_generation_call`"
    body, _ = mended(PARTS, "responses", {"input": [*items, SAID]}, words)
    assert body["input"] == [items[1], SAID]


# For all.

contents = st.lists(
    st.sampled_from([SEE, IMAGE, BLOCK, INPUT, {"type": "zz"}, "x", text("x", "input_text")]),
    min_size=1,
    max_size=4,
)


@given(
    st.sampled_from(["chat", "messages", "responses"]),
    st.lists(contents, min_size=1, max_size=4),
    st.permutations([LLAMA["image"], LLAMA["type"], LLAMA["type"]]),
)
def test_the_head_stays_and_texts_stay(api, said, words):
    """What is remembered makes the same of the first messages, whatever comes behind them."""
    root = "input" if api == "responses" else "messages"
    items = [
        {"role": ("user", "assistant")[number % 2], "content": content}
        for number, content in enumerate(said)
    ]
    body, facts = mended(PARTS, api, {root: items}, *words[:1])
    if body is None:
        return
    last = {"role": "user", "content": [SEE, IMAGE, {"type": "yy"}]}
    whole = later(PARTS, api, {root: [*items, last]}, facts)[root]
    assert whole[:-1] == body[root] == later(PARTS, api, {root: items}, facts)[root]
    before, after = json.dumps(items), json.dumps(body[root])
    assert after.count('"see"') == before.count('"see"')
    assert after.count('"x"') == before.count('"x"')


odd = st.sampled_from(
    [
        *(SEE, IMAGE, BLOCK, INPUT, SEE | {"type": "input_text"}, "x", 7, None, {"type": "zz"}, {}),
        *({"type": []}, {"type": "thinking"}, {"type": "document", "source": {"type": "file"}}),
        {"type": "tool_result", "tool_use_id": "c", "content": [SEE, BLOCK, {"type": "zz"}]},
    ]
)
listed = st.one_of(st.none(), st.just("x"), st.lists(odd, max_size=3))
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "system", None])},
    optional={"content": listed, "images": st.lists(st.just("AAAA"), max_size=2)},
)
kinds = st.sampled_from(
    [
        *("message", "reasoning", "function_call_output", "custom_tool_call", "compaction", 7),
        *("local_shell_call", "tool_search_output", "shell_call_output", "item_reference"),
    ]
)
others = st.fixed_dictionaries(
    {"type": kinds},
    optional={
        "call_id": st.just("c"),
        "output": st.one_of(listed, st.just({"a": 1})),
        "content": listed,
        "arguments": st.sampled_from(["{}", {}, None]),
        "name": st.sampled_from(["f", None]),
        "a/b~": st.just(1),
        "role": st.just("user"),
    },
)


@given(
    st.sampled_from([*PATHS]),
    st.lists(st.one_of(messages, others), max_size=5),
    st.booleans(),
    st.integers(0, 2),
)
def test_whatever_is_there_all_edits_can_be_made_once(api, items, goes_behind, most):
    """With everything refused that can be: no two edits overlap, and nothing is left to edit."""
    root = "input" if api == "responses" else "messages"
    came = request({root: items, "model": "m"}, PATHS[api])
    blocks, others = _found(came)
    keys = [key for block in blocks for key in block.keys] + [item.key for item in others]
    facts = {
        key: most if key == ("image",) else "behind" if key[-1] == "result" else 0
        for key in keys
        if not goes_behind or key != ("image",)
    }
    edited = apply(came.document, PARTS.edits(came, Need(facts)))
    json.loads(edited)
    is_odd = any("tool_result" in json.dumps(one) and one.get("role") != "user" for one in items)
    if (most == 0 or goes_behind) and not is_odd:
        again = came.with_body(edited)
        assert apply(again.document, PARTS.edits(again, Need(facts))) == edited


def test_nothing_is_looked_for_where_nothing_was_refused():
    assert PARTS.needed(None, {}) is None
