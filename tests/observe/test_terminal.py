"""TerminalObserver: our own lines as they are, and from others only what went wrong."""

from __future__ import annotations

import io

import pytest
from twisted.logger import Logger, LogLevel

from cacheproxy.observe.terminal import TerminalObserver


def stream(encoding="utf-8"):
    return io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="\n")


def printed(log, *, namespace="cacheproxy.tap", encoding="utf-8"):
    """What is printed when ``log`` is given a logger of ``namespace``."""
    out = stream(encoding)
    log(Logger(namespace, observer=TerminalObserver(out)))
    return out.buffer.getvalue().decode(encoding)


def test_our_lines_are_printed_as_they_are():
    """Without time, level or namespace."""
    assert printed(lambda log: log.info("{line}", line="Ready. {x}")) == "Ready. {x}\n"
    assert printed(lambda log: log.info("{line}", line="")) == "\n"
    assert printed(lambda log: log.info("{line}", line="a → b · é")) == "a → b · é\n"


def test_others_are_heard_when_something_went_wrong():
    """Twistd's own chatter is not."""
    other = {"namespace": "twisted.web.server.Site"}
    assert printed(lambda log: log.info("starting"), **other) == ""
    assert printed(lambda log: log.debug("starting"), **other) == ""
    warned = printed(lambda log: log.emit(LogLevel.warn, "too many files"), **other)
    assert warned == "warn: too many files\n"
    assert printed(lambda log: log.info("x"), namespace="cacheproxyish") == ""


@pytest.mark.parametrize("level", [LogLevel.warn, LogLevel.error, LogLevel.critical])
def test_trouble_names_its_level(level):
    """Ours as well."""
    assert printed(lambda log: log.emit(level, "oops")) == f"{level.name}: oops\n"


def test_a_failure_comes_with_its_traceback():
    """So that it can be reported; but not with what the exception says, which may be a prompt."""

    def log(logger):
        try:
            {}["a prompt"]
        except KeyError:
            logger.failure("it failed")

    text = printed(log)
    assert text.startswith("critical: it failed\n")
    assert "KeyError" in text
    assert "test_terminal.py" in text
    assert "prompt" not in text
    assert text.endswith("\n")


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("\x1b[2Jgone", r"\x1b[2Jgone"),
        ("a\rb", r"a\rb"),
        ("\x9b31m", r"\x9b31m"),
        ("\x07", r"\x07"),
        ("lone \ud83d", r"lone \ud83d"),
        ("right\u202eleft", r"right\u202eleft"),
    ],
)
def test_control_characters_are_spelled_out(line, shown):
    """A request's path goes to the terminal, and a client chose it."""
    assert printed(lambda log: log.info("{line}", line=line)) == shown + "\n"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_a_stream_that_cannot_spell_an_arrow_still_gets_the_line(encoding):
    """The banner has arrows and dots."""
    line = "http://x  →  http://y"
    assert printed(lambda log: log.info("{line}", line=line), encoding=encoding) == (
        "http://x  \\u2192  http://y\n"
    )


def test_a_stream_that_is_gone_stops_nobody():
    """The proxy goes on without its terminal; a StringIO has no encoding."""
    out = stream()
    out.close()
    Logger("cacheproxy.tap", observer=TerminalObserver(out)).info("x")
    out = io.StringIO()
    Logger("cacheproxy.tap", observer=TerminalObserver(out)).info("→")
    assert out.getvalue() == "→\n"

    class Broken(io.StringIO):
        def write(self, _):
            raise BrokenPipeError

    Logger("cacheproxy.tap", observer=TerminalObserver(Broken())).info("x")
