"""Made-up conversations, and what a chat template would see of them."""

import json

from hypothesis import strategies as st

from cacheproxy.testing import request
from cacheproxy.translate.translation import MessagesToChat
from tests.translate.values import JSON, NAME, TEXT


def block(kind, **fields):
    return st.fixed_dictionaries({"type": st.just(kind), **fields})


def cached(blocks):
    """The same blocks, some with a cache breakpoint."""
    mark = st.sampled_from([{}, {"cache_control": {"type": "ephemeral"}}])
    return st.builds(lambda one, more: one | more, blocks, mark)


TEXT_BLOCK = block("text", text=TEXT)
IMAGE = block(
    "image",
    source=st.sampled_from(
        [
            {"type": "base64", "media_type": "image/png", "data": "AAAA"},
            {"type": "url", "url": "https://example.org/a.png"},
        ]
    ),
)
DOCUMENT = block(
    "document",
    source=st.sampled_from(
        [
            {"type": "text", "media_type": "text/plain", "data": "all of it"},
            {"type": "base64", "media_type": "application/pdf", "data": "AAAA"},
            {"type": "content", "content": [{"type": "text", "text": "part"}]},
        ]
    ),
)
SHOWN = TEXT_BLOCK | IMAGE | DOCUMENT
RESULT = st.fixed_dictionaries(
    {"type": st.just("tool_result"), "tool_use_id": st.sampled_from(["toolu_1", "call_2"])},
    optional={"content": TEXT | st.lists(cached(SHOWN), max_size=3), "is_error": st.booleans()},
)
CALL = block(
    "tool_use",
    id=st.sampled_from(["toolu_1", "call_2"]),
    name=NAME,
    input=st.dictionaries(TEXT, JSON, max_size=3),
)
THINKING = block("thinking", thinking=TEXT, signature=st.just(""))
USER = st.lists(cached(SHOWN | RESULT), max_size=4)
ASSISTANT = st.lists(cached(TEXT_BLOCK | CALL | THINKING), max_size=4)


def message(role, blocks):
    return st.fixed_dictionaries({"role": st.just(role), "content": TEXT | blocks})


MESSAGE = (
    message("user", USER)
    | message("assistant", ASSISTANT)
    | message("system", st.lists(cached(TEXT_BLOCK), max_size=2))
)
MESSAGES = st.lists(MESSAGE, max_size=6)


def spelt(value, **how):
    """``value`` as JSON, as finite as JSON is."""
    return json.dumps(value, **how).replace("NaN", "0").replace("Infinity", "0")


def turned(body, spellings=None):
    """The chat request for a Messages body."""
    asked = request(body, "/v1/messages?beta=true")
    return MessagesToChat(asked, spellings).sent


def chat(body, spellings=None):
    """The chat body for a Messages body, as values."""
    return json.loads(turned(body, spellings).body)


def elements(text, name):
    """The elements of the list ``name`` of a JSON body, each in its own spelling."""
    decoder = json.JSONDecoder()
    begin = text.index(f'"{name}":[') + len(name) + 4
    found = []
    while text[begin] != "]":
        _, end = decoder.raw_decode(text, begin)
        found.append(text[begin:end])
        begin = end + (text[end] == ",")
    return found
