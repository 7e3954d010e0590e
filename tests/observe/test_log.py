"""The log: our own lines as they are, from others what went wrong, and no text of a prompt."""

import io

import pytest
from twisted.logger import Logger, LogLevel, LogPublisher, textFileLogObserver
from twisted.python.failure import Failure

from cacheproxy.observe.log import TerminalObserver, bare, bare_failures
from tests import transcript


def stream(encoding="utf-8"):
    return io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="\n")


def printed(log, *, namespace="cacheproxy.tap", encoding="utf-8"):
    """What is printed when ``log`` is given a logger of ``namespace``."""
    out = stream(encoding)
    log(Logger(namespace, observer=TerminalObserver(out)))
    return out.buffer.getvalue().decode(encoding)


OTHERS = "twisted.web.server.Site"
INFO, WARN = LogLevel.info, LogLevel.warn


@pytest.mark.parametrize(
    ("namespace", "level", "line", "shown"),
    [
        # ours as they are: without time, level or namespace
        *(("cacheproxy.tap", INFO, line, line) for line in ("Ready. {x}", "", "a → b · é")),
        # others are heard when something went wrong; twistd's own chatter is not
        (OTHERS, LogLevel.debug, "starting", None),
        (OTHERS, INFO, "starting", None),
        ("cacheproxyish", INFO, "x", None),
        (OTHERS, WARN, "too many files", "warn: too many files"),
        *(
            ("cacheproxy.tap", level, "oops", f"{level.name}: oops")
            for level in (WARN, LogLevel.error, LogLevel.critical)
        ),
        # control characters are spelled out: a path goes to the terminal, and a client chose it
        *(
            ("cacheproxy.tap", INFO, line, line.encode("unicode_escape").decode())
            for line in ("\x1b[2Jgone", "a\rb", "\x9b31m", "\x07", "lone \ud83d", "right\u202eleft")
        ),
    ],
)
def test_a_line_as_it_is_printed(namespace, level, line, shown):
    found = printed(lambda log: log.emit(level, "{line}", line=line), namespace=namespace)
    assert found == ("" if shown is None else f"{shown}\n")


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
    assert "test_log.py" in text
    assert "prompt" not in text
    assert text.endswith("\n")


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


SECRET = "kanarienvogel"


def failed():
    """A failure that says the secret, as does what caused it."""
    try:
        try:
            int(SECRET)
        except ValueError as error:
            raise KeyError(SECRET) from error
    except KeyError:
        return Failure()


@pytest.mark.parametrize("detail", ["brief", "default", "verbose"])
def test_the_class_and_the_place_stay(detail):
    failure = failed()
    assert SECRET in failure.getTraceback(detail=detail)
    text = bare(failure).getTraceback(detail=detail)
    assert SECRET not in text
    assert SECRET not in bare(Failure(ValueError(SECRET))).getTraceback(detail=detail)
    assert "KeyError" in text
    assert "test_log.py" in text


@pytest.mark.parametrize("key", ["log_failure", "failure"])
def test_observers_that_come_after_it_see_bare_failures(key):
    """Both halves of Twisted, and an event that is seen twice."""
    file = io.StringIO()
    publisher = LogPublisher(bare_failures, bare_failures, textFileLogObserver(file))
    event = {"log_format": "it failed", "log_time": 0.0, key: failed()}
    publisher(event)
    assert SECRET not in event[key].getTraceback()
    assert SECRET not in file.getvalue()
    assert "it failed" in file.getvalue()


def test_all_that_is_said():
    transcript.holds("log.txt", globals())
