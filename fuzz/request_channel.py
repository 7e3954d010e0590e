"""The request channel: whole, byte by byte, answered at once or late, all give the same."""

import atheris

with atheris.instrument_imports(
    include=["cacheproxy.proxy.downstream", "cacheproxy.core.http1", "cacheproxy.core.privacy"]
):
    from tests.proxy.inmemory import converse

from cacheproxy.proxy.downstream.limits import Limits
from fuzz.starting import start
from tests.proxy.downstream.test_channel_split import REFUSED, REFUSED_WITH
from tests.proxy.test_malformed import RELAYED

ROOMY = Limits()
TIGHT = Limits(body=64, head=200, target=40, headers=6)


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
    cases = [*REFUSED.values(), *(data for _, data in REFUSED_WITH.values()), *RELAYED.values()]
    start(one, [kind + data for data in cases for kind in (b"\0", b"\xff")])
