"""The reader of usage: any bytes, cut anywhere, the same figures and no exception."""

import sys

import atheris

with atheris.instrument_imports(
    include=["cacheproxy.core.conversation.usage", "cacheproxy.core.http1.sse"]
):
    from cacheproxy.core.conversation import usage

TYPES = ["text/event-stream", "application/json", "application/x-ndjson", "json event-stream"]
LONGEST = usage._LONGEST_KEPT
TOGETHER = usage._TOGETHER


def read(content_type: str, pieces: list[bytes]) -> usage.Usage:
    """Return what a new reader finds in ``pieces``."""
    reader = usage.UsageReader(content_type)
    for piece in pieces:
        reader.feed(piece)
    return reader.close()


def one(data: bytes) -> None:
    """The first byte says where to cut, what it is called, and how narrow the limit is."""
    at, data = data[0] if data else 0, data[1:]
    usage._LONGEST_KEPT = 40 if at >= 128 else LONGEST
    usage._TOGETHER = TOGETHER
    content_type = TYPES[at % 4]
    whole = read(content_type, [data])
    usage._TOGETHER = at % 64
    assert read(content_type, [data[:at], data[at:]]) == whole
    assert read(content_type, [data[i : i + 1] for i in range(len(data))]) == whole
    assert whole.evaluated is None or whole.evaluated >= 0


if __name__ == "__main__":
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
