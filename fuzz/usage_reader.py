"""The reader of usage: any bytes, cut anywhere, the same figures and no exception."""

import json
from collections.abc import Iterator

import atheris

with atheris.instrument_imports(
    include=["cacheproxy.core.conversation", "cacheproxy.core.http1.sse"]
):
    from cacheproxy.core.conversation import usage_reader
    from cacheproxy.core.conversation.usage import Usage

from fuzz.starting import start
from tests.core import counting

TYPES = ["text/event-stream", "application/json", "application/x-ndjson", "json event-stream"]
LONGEST = usage_reader._LONGEST_MESSAGE
LAST, TOGETHER = usage_reader._LAST, usage_reader._TOGETHER


def read(content_type: str, pieces: list[bytes]) -> Usage:
    """Return what a new reader finds in ``pieces``."""
    reader = usage_reader.UsageReader(content_type)
    for piece in pieces:
        reader.feed(piece)
    return reader.close()


def one(data: bytes) -> None:
    """The first byte says where to cut, what it is called, and how narrow the limits are."""
    at, data = data[0] if data else 0, data[1:]
    usage_reader._LONGEST_MESSAGE = 40 if at >= 128 else LONGEST
    usage_reader._TOGETHER = TOGETHER
    usage_reader._LAST = 100 if at % 8 >= 4 else LAST
    content_type = TYPES[at % 4]
    whole = read(content_type, [data])
    usage_reader._TOGETHER = at % 64
    assert read(content_type, [data[:at], data[at:]]) == whole
    assert read(content_type, [data[i : i + 1] for i in range(len(data))]) == whole
    assert whole.evaluated is None or whole.evaluated >= 0


def seeds() -> Iterator[bytes]:
    """Make answers of each dialect, whole and as streams, with each first byte that matters."""
    answers = [
        counting.ANTHROPIC,
        {"object": "chat.completion", "usage": counting.CHAT_USAGE, "timings": counting.TIMINGS},
        {"type": "response.completed", "response": {"usage": counting.RESPONSES_USAGE}},
        counting.COMPLETION,
        counting.OLLAMA,
    ]
    for cut in (5, 70, 135):
        for answer in answers:
            yield bytes([cut // 4 * 4]) + counting.events(counting.START, answer)
            yield bytes([cut // 4 * 4 + 1]) + json.dumps(answer).encode()
            yield bytes([cut // 4 * 4 + 2]) + json.dumps(answer).encode() + b"\n"


if __name__ == "__main__":
    start(one, seeds())
