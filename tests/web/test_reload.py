"""The page that has the configuration read again: who may ask for it, and what it says."""

from __future__ import annotations

import json

import pytest

from tests.proxy.harness import Proxy
from tests.web.asking import get

pytestmark = pytest.mark.slow
RULE = (
    "[[rule]]\nname = 'stamp'\nwhere = 'system'\npattern = 'now: [1-9]+'\nreplacement = 'now: 0'\n"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("reload")


@pytest.fixture(scope="module")
def proxy(folder):
    (folder / "config.toml").write_text("")
    with Proxy(folder, "--config", "config.toml") as proxy:
        yield proxy


def reload(proxy, *fields):
    return get(proxy, "/_cacheproxy/reload", *fields, method=b"POST", payload=b"")


def test_it_says_what_has_changed_and_what_is_on(folder, proxy):
    (folder / "config.toml").write_text(RULE)
    answer = reload(proxy)
    said = json.loads(answer.body)
    assert (answer.status, said["said"]) == (200, "reloaded: rule changed")
    assert "stamp" in said["rules"]


def test_what_is_wrong_is_said_and_changes_nothing(folder, proxy):
    (folder / "config.toml").write_text("port = 'x'\n")
    answer = reload(proxy)
    assert answer.status == 409
    assert "the old ones stay in use" in json.loads(answer.body)["error"]


def test_only_a_post_of_our_own_may_ask_for_it(proxy):
    assert reload(proxy, b"Origin: https://example.com").status == 403
    answer = get(proxy, "/_cacheproxy/reload")
    assert (answer.status, answer.values(b"allow")) == (405, [b"POST"])


def test_it_needs_the_token_where_there_is_one(tmp_path):
    """So does the cure."""
    with Proxy(tmp_path, CACHEPROXY_TOKEN="abc") as proxy:
        assert reload(proxy).status == get(proxy, "/_cacheproxy/cure/1").status == 401
        headed = get(proxy, "/_cacheproxy/cure/1", b"X-Cacheproxy-Token: abc")
        assert headed.status == 404
