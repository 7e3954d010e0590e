"""The reader of server-sent events: cut anywhere, the same events."""

import atheris

with atheris.instrument_imports(include=["cacheproxy.core.http1.sse"]):
    from cacheproxy.core.http1 import sse

from fuzz.starting import start
from tests.core.counting import ANTHROPIC, START
from tests.core.counting import events as written


def events(pieces: list[bytes]) -> list[sse.Event]:
    """Return what a new reader makes of ``pieces``."""
    reader = sse.EventReader()
    return [event for piece in pieces for event in reader.feed(piece)]


def one(data: bytes) -> None:
    """The first byte says where to cut, and how narrow the limit is."""
    at, data = data[0] if data else 0, data[1:]
    sse._LONGEST_LINE = 8 if at % 2 else 1 << 20
    whole = events([data])
    assert events([data[:at], data[at:]]) == whole
    assert events([data[i : i + 1] for i in range(len(data))]) == whole


if __name__ == "__main__":
    start(one, [cut + written(START, ANTHROPIC, "[DONE]") for cut in (b"\x14", b"\x15")])
