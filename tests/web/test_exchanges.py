"""The pages that tell of the last exchanges, through a real proxy."""

from __future__ import annotations

import json

import pytest

from cacheproxy.core.diagnose.report import TurnReport
from tests.observe.exchanges import body
from tests.proxy.harness import Proxy, eventually

from .asking import get, turn

pytestmark = pytest.mark.slow

SECRET = "kanarienvogel"


@pytest.fixture(scope="module")
def proxy(upstream, tmp_path_factory):
    with Proxy(tmp_path_factory.mktemp("exchanges"), "--upstream", upstream.url) as proxy:
        yield proxy


def page(proxy, target):
    answer = get(proxy, target)
    return answer.status, json.loads(answer.body)


def test_a_break_is_told_of_and_explained(proxy, upstream):
    """The list has figures alone; the report quotes what changed, to the user who asks."""
    status, said = page(proxy, "/_cacheproxy/diagnose/last")
    assert (status, said["error"]) == (404, "no turn has come through this proxy yet")
    for texts, nonce, prompt, reused in (("a", "1a2b", 2000, 0), ("ab", "9c8d", 2010, 3)):
        said = body(*texts, system=f"nonce {nonce} {SECRET} {'x ' * 3000}")
        turn(proxy, upstream, said, prompt, reused, b"X-Session-Id: s1")
    eventually(lambda: len(page(proxy, "/_cacheproxy/exchanges")[1]["exchanges"]) == 2)
    status, listed = page(proxy, "/_cacheproxy/exchanges")
    found = listed["exchanges"]
    assert status == 200
    assert [one["verdict"] for one in found] == ["cold", "BREAK"]
    assert found[1]["reason"] == "system_changed"
    assert found[1]["usage"] == {"prompt": 2010, "reused": 3, "output": 7}
    assert SECRET not in json.dumps(listed)
    status, said = page(proxy, "/_cacheproxy/diagnose/last")
    assert status == 200
    report = TurnReport.from_json(said)
    assert (report.number, report.turn, report.path) == (2, 2, "/system")
    assert "9c8d" in report.excerpts.now
    assert page(proxy, "/_cacheproxy/diagnose/1")[0] == 200
    assert SECRET not in proxy.output


@pytest.mark.parametrize("name", ["99", "", "x/../y", "%2e"])
def test_an_exchange_nobody_remembers_is_a_404(proxy, name):
    """With a word on what there is."""
    status, said = page(proxy, f"/_cacheproxy/diagnose/{name}")
    assert status == 404
    assert "exchanges" in said["error"]
