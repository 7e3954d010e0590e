"""Two proxies that want the same totals."""

from __future__ import annotations

import json

import pytest

from tests.proxy.harness import Proxy

from .asking import get

pytestmark = pytest.mark.slow


def ask(proxy, path):
    answer = get(proxy, path)
    return answer.status, json.loads(answer.body)


def test_the_second_one_says_who_has_them(tmp_path):
    """Its pages answer 503 with what mends it; its own work goes on."""
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    state = {"CACHEPROXY_STATE_DIR": str(tmp_path / "state")}
    upstream = ("--upstream", "http://127.0.0.1:9")
    with (
        Proxy(tmp_path / "one", *upstream, **state) as first,
        Proxy(tmp_path / "other", *upstream, **state) as second,
    ):
        assert ask(first, "/_cacheproxy/data?window=1h")[0] == 200
        for path in ("/_cacheproxy/data?window=1h", "/_cacheproxy/requests"):
            status, said = ask(second, path)
            assert status == 503
            assert "--state-dir" in said["error"]
        assert ask(second, "/_cacheproxy/exchanges")[0] == 200
        assert "Traceback" not in second.output
