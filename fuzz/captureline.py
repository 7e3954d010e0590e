"""Lines of a capture: an exchange or CapturedError; what was read is written, and read again."""

import sys

import atheris

with atheris.instrument_imports(
    include=["cacheproxy.core.capture.jsonl", "cacheproxy.core.privacy.redact"]
):
    from cacheproxy.core.capture.jsonl import CapturedError, from_line, to_line


def one(data: bytes) -> None:
    """Raise whatever is raised but CapturedError."""
    try:
        captured = from_line(data)
    except CapturedError as refused:
        if "\n" in str(refused):
            raise
        return
    line = to_line(captured)
    assert line.index(b"\n") == len(line) - 1
    assert repr(from_line(line)) == repr(captured)


if __name__ == "__main__":
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
