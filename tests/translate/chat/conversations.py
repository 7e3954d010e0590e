"""Made-up conversations of chat clients, and what becomes of them."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from cacheproxy.testing import request
from cacheproxy.translate.chat import ChatToMessages
from tests.translate.common.values import JSON, NAME, TEXT

PATH = "/v1/chat/completions"
ID = st.sampled_from(["toolu_1", "call_2", "functions.look:3"])
PNG = "data:image/png;base64,AAAA"
PDF = "data:application/pdf;base64,BBBB"


def part(kind, **fields):
    return st.fixed_dictionaries({"type": st.just(kind), **fields})


TEXT_PART = part("text", text=TEXT)
IMAGE = part("image_url", image_url=st.sampled_from([{"url": PNG}, {"url": "https://x/y"}, PNG]))
FILE = part("file", file=st.sampled_from([{"file_data": PDF, "filename": "t.pdf"}]))
OBJECTS = st.dictionaries(TEXT, JSON, max_size=3)
ARGUMENTS = (
    st.builds(lambda value, space: json.dumps(value, indent=space), OBJECTS, st.none() | st.just(1))
    | TEXT
    | OBJECTS
)
FUNCTION = st.fixed_dictionaries({"name": NAME, "arguments": ARGUMENTS})
CALL = part("function", id=ID, function=FUNCTION)


def message(role, content, **optional):
    return st.fixed_dictionaries(
        {"role": st.just(role), "content": content}, optional=optional or None
    )


USER = message("user", TEXT | st.lists(TEXT_PART | IMAGE | FILE, max_size=3))
ASSISTANT = message(
    "assistant",
    st.none() | TEXT | st.lists(TEXT_PART, max_size=2),
    tool_calls=st.lists(CALL, max_size=3),
    reasoning_content=TEXT,
    refusal=st.none() | TEXT,
    function_call=FUNCTION,
)
RESULT = st.fixed_dictionaries(
    {
        "role": st.just("tool"),
        "tool_call_id": ID,
        "content": TEXT | st.lists(TEXT_PART | IMAGE, max_size=2),
    }
)
SYSTEM = message("system", TEXT | st.lists(TEXT_PART, max_size=2)) | message("developer", TEXT)
MESSAGES = st.lists(USER | ASSISTANT | RESULT | SYSTEM, max_size=7)
HEAD = st.lists(SYSTEM, max_size=2)


def spelt(value, *, ascii_only=True):
    """``value`` as JSON, as finite as JSON is; characters where UTF-8 has them, if asked."""
    text = json.dumps(value, ensure_ascii=ascii_only)
    text = "".join(f"\\u{ord(c):04x}" if "\ud800" <= c <= "\udfff" else c for c in text)
    return text.replace("NaN", "0").replace("Infinity", "0")


def turned(body, **how):
    """The Messages request for a chat body: a dict, or its JSON text."""
    return ChatToMessages(created=0, **how).request(request(body, PATH))


def up(body, **how):
    """The Messages body for a chat body, as values."""
    return json.loads(turned(body, **how).body)


def said(*messages, **more):
    """The messages, as values, for chat messages."""
    return up({"messages": list(messages), **more})["messages"]


def opened(body):
    """The text of a Messages body up to the brackets that close its messages."""
    text = body.decode()
    ends = "]}]}"
    return text[: -len(ends)] if text.endswith(ends) else text.removesuffix("]}")
