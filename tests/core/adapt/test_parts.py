"""What a server cannot read becomes a line of text; what a user wrote or a tool returned stays."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.adapt.adaptation import Need
from cacheproxy.core.adapt.parts import UnreadableParts, _found
from cacheproxy.core.document.edits import apply
from cacheproxy.testing import request
from tests import transcript

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


def test_all_that_is_said():
    transcript.holds("parts.txt", globals())
