"""What a client has to know."""

from __future__ import annotations

import pytest

from cacheproxy.client_setup.need import Need, late, model_and_context


def health(**server):
    return {"version": "1", "upstream": {"url": "u", "state": "up", "server": server}}


@pytest.mark.parametrize(
    ("page", "found"),
    [
        (health(model="m", context=4096), ("m", 4096)),
        (health(model=None, context=None), (None, None)),
        (health(model="a\nb", context=True), (None, None)),
        (health(model="", context=0), (None, None)),
        (health(model="${KEY} {env:KEY}", context=1), ("${KEY} {env:KEY}", 1)),
        (health(model="!cat -m x", context=1), ("!cat -m x", 1)),
        (health(model="a\x1b[2J", context=1), (None, 1)),
        (health(model="qwen/Qwen3.5 (Q6_K):latest", context=1), ("qwen/Qwen3.5 (Q6_K):latest", 1)),
        (health(model="x" * 201, context="4096"), (None, None)),
        ({"upstream": {"state": "down"}}, (None, None)),
        ({"upstream": 7}, (None, None)),
        ([], (None, None)),
    ],
)
def test_what_the_health_page_tells(page, found):
    """Whatever answers at that port: what nobody can print is no name. Others are quoted."""
    assert model_and_context(page) == found


@pytest.mark.parametrize(
    ("page", "found", "taken"),
    [
        (health() | {"placement": {"setting": "auto", "late": "inline"}}, "inline", True),
        (health() | {"placement": {"setting": "auto", "late": "user"}}, "user", True),
        (health() | {"placement": {"setting": "auto", "late": "refused"}}, "refused", False),
        (health() | {"placement": {"late": None}}, "unknown", False),
        (health() | {"placement": None}, "unknown", False),
        (health(), "unknown", False),
        ({"upstream": {"state": "down"}, "placement": {"late": "inline"}}, None, None),
        (None, None, None),
    ],
)
def test_what_becomes_of_a_late_system_message(page, found, taken):
    """What the server is not known to take counts as not taken; without a server nothing does."""
    assert late(page) == found
    assert Need("u", late=late(page)).takes_late is taken


def test_the_key():
    """The server's if it has one; the proxy takes its token from there, else from a header."""
    assert Need("u").key == "cacheproxy"
    assert Need("u").key_variable is None
    token = Need("u", token="t")
    assert (token.key, token.key_variable, token.needs_header) == ("t", "CACHEPROXY_TOKEN", False)
    both = Need("u", token="t", api_key="k")
    assert (both.key, both.key_variable, both.needs_header) == ("k", "OPENAI_API_KEY", True)
    assert not Need("u", api_key="k").needs_header


def test_secrets_are_what_files_refer_to():
    """Each by the variable's name, for who starts the client."""
    assert Need("u").secrets == {}
    assert Need("u", token="t").secrets == {"CACHEPROXY_TOKEN": "t"}
    both = Need("u", token="t", api_key="k")
    assert both.secrets == {"OPENAI_API_KEY": "k", "CACHEPROXY_TOKEN": "t"}
    assert [name for name in both.secrets if not any(name in note for note in both.key_notes)] == []


def test_room_for_the_answer():
    """A quarter at most."""
    assert Need("u").output is None
    assert Need("u", context=4096).output == 1024
    assert Need("u", context=131_072).output == 8192
