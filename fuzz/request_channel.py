"""The request channel: whole, byte by byte, answered at once or late, all give the same."""

import re
from pathlib import Path

import atheris

with atheris.instrument_imports(
    include=["cacheproxy.proxy.downstream", "cacheproxy.core.http1", "cacheproxy.core.privacy"]
):
    from tests.proxy.inmemory import converse

from cacheproxy.proxy.downstream.limits import Limits
from fuzz.starting import start
from tests.proxy import test_malformed
from tests.proxy.downstream import test_channel_split

ROOMY = Limits()
TIGHT = Limits(body=64, head=200, target=40, headers=6)
ASKED = re.compile(r"^>>> (?:refused|relayed)\((.*)\)$", re.MULTILINE)
"""The requests of the tests' transcripts."""


def recorded() -> list[bytes]:
    """Return the requests that begin a search."""
    names = vars(test_channel_split) | vars(test_malformed)
    proxy = Path(test_malformed.__file__).parent
    files = proxy / "downstream" / "refused.txt", proxy / "malformed.txt"
    found = [each for file in files for each in ASKED.findall(file.read_text("utf-8"))]
    return [eval(each, names) for each in found]  # noqa: S307 - our own files


def one(data: bytes) -> None:
    """Raise whatever the channel raises, or AssertionError where the ways of feeding differ."""
    limits = TIGHT if data[:1] < b"\x80" else ROOMY
    data = data[1:]
    whole = converse([data], limits)
    bytewise = [data[i : i + 1] for i in range(len(data))]
    half = len(data) // 2
    assert converse(bytewise, limits) == whole
    assert converse([data], limits, late=True) == whole
    assert converse([data[:half], data[half:]], limits, late=True) == whole


if __name__ == "__main__":
    start(one, [kind + data for data in recorded() for kind in (b"\0", b"\xff")])
