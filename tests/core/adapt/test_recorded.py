"""What real agents sent when their conversation was refused, by a real llama.cpp: it goes on.

Recorded with Claude Code 2.1.332, Codex 0.171.0, opencode 1.18.33 and Qwen Code 0.24.4: the tail
of the first request that was refused, its ids, paths and image shortened. Directly, each later
turn was refused as well.
"""

import pytest

from cacheproxy.core.adapt.calls import Calls
from cacheproxy.core.adapt.parts import UnreadableParts

from .mending import later, mended, refusal

NO_IMAGES = refusal(
    "image input is not supported - hint: if this is unexpected, you may need to provide the "
    "mmproj",
    500,
)
NO_JSON = refusal(
    "Failed to parse tool call arguments as JSON: [json.exception.parse_error.101] parse error at "
    "line 1, column 23: syntax error while parsing value - invalid string: missing closing quote",
    500,
)
URL = "data:image/png;base64,AAAAAA=="
LINE = "[image not shown: image/png, 4 bytes; the model server takes no images]"
GO_ON = {"role": "user", "content": "Go on."}


def called(name, arguments):
    function = {"name": name, "arguments": arguments}
    call = {"id": "call_1", "type": "function", "function": function}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def result(content):
    return {"role": "tool", "tool_call_id": "call_1", "content": content}


def media(words, part):
    return {"role": "user", "content": [{"type": "text", "text": words}, part]}


def codex(name, arguments, output):
    call = {"type": "function_call", "name": name, "arguments": arguments, "call_id": "call_1"}
    return [call, {"type": "function_call_output", "call_id": "call_1", "output": output}]


def claude(part):
    used = {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "shot.png"}}
    back = {"tool_use_id": "t1", "type": "tool_result", "content": [part]}
    return [{"role": "assistant", "content": [used]}, {"role": "user", "content": [back]}]


def opencode(part):
    read = called("read", '{"filePath":"shot.png"}')
    attached = media("Attached media from tool result:", part)
    return [read, result("Image read successfully"), attached]


def qwen(part):
    read = {**called("read_file", '{"file_path":"shot.png"}'), "content": None}
    attached = media("(attached media from previous tool call)", part)
    return [read, result("Image overview: 64x64"), attached]


SOURCE = {"type": "base64", "media_type": "image/png", "data": "AAAAAA=="}
WORDS = {"type": "text", "text": LINE}
CHAT_IMAGE = {"type": "image_url", "image_url": {"url": URL}}
SEEN = {"type": "input_image", "image_url": URL, "detail": "high"}
CUT = '{"cmd": "ls -la && echo'
KEPT = '{"INVALID_JSON":"{\\"cmd\\": \\"ls -la && echo"}'
EOF = "failed to parse function arguments: EOF while parsing a string at line 1 column 22"
RECORDED = {
    "Claude Code, Read": (
        *(UnreadableParts(), NO_IMAGES, "messages"),
        *(claude({"type": "image", "source": SOURCE}), claude(WORDS)),
    ),
    "opencode, read": (
        *(UnreadableParts(), NO_IMAGES, "chat"),
        *(opencode(CHAT_IMAGE), opencode(WORDS)),
    ),
    "Qwen Code, read_file": (
        *(UnreadableParts(), NO_IMAGES, "chat"),
        *(qwen(CHAT_IMAGE), qwen(WORDS)),
    ),
    "Codex, view_image": (
        *(UnreadableParts(), NO_IMAGES, "responses"),
        codex("view_image", '{"path": "shot.png"}', [SEEN]),
        codex("view_image", '{"path": "shot.png"}', [{"type": "input_text", "text": LINE}]),
    ),
    "Codex, a call cut off": (
        *(Calls(), NO_JSON, "responses"),
        *(codex("exec_command", CUT, EOF), codex("exec_command", KEPT, EOF)),
    ),
}


@pytest.mark.parametrize("which", RECORDED)
def test_it_goes_on_and_the_next_turn_is_mended_before_it_is_sent(which):
    adaptation, said, api, came, expected = RECORDED[which]
    root = "input" if api == "responses" else "messages"
    body, facts = mended(adaptation, api, {root: [GO_ON, *came]}, said)
    assert body == {root: [GO_ON, *expected]}
    assert later(adaptation, api, {root: [GO_ON, *came, GO_ON]}, facts) == {
        root: [GO_ON, *expected, GO_ON]
    }
