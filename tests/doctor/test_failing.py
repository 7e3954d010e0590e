"""Requests of agents that failed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cacheproxy.doctor import record
from cacheproxy.doctor.finding import FindingState
from cacheproxy.doctor.record import Record
from cacheproxy.plugin.packages import Packages
from tests.doctor import builders

NOW = 1000.0
SYSTEM = "System message must be at the beginning."


def seen(number, client="claude", status=200, said=None, **more):
    more |= {"client": client, "status": status, "said": said, "wall": NOW - 120}
    return builders.seen(number, number, None, None, "-", path="/v1/messages", **more)


def check(*kept, kind=""):
    return record.check_requests(Record(kept), NOW, kind, Packages.load().clients)


def test_a_client_whose_requests_are_all_refused():
    """The server's words, and where to put what it refuses."""
    (found,) = check(*(seen(n, status=400, said=SYSTEM) for n in range(1, 29)))
    assert found.state is FindingState.FAIL
    assert found.text == (
        "all of the last 10 requests of claude failed, the last 2 min ago on /v1/messages, with "
        f'HTTP 400: "{SYSTEM}"'
    )
    assert "--placement user" in found.fix


@pytest.mark.parametrize(
    ("status", "said", "fix"),
    [
        (500, "out of memory", "cacheproxy diagnose 3"),
        (502, None, "cacheproxy diagnose 3"),
        (400, "the request exceeds the available context size", "cacheproxy env claude"),
        (401, "Invalid API Key", "the model server's key"),
    ],
)
def test_the_turn_is_named_by_its_number(status, said, fix):
    """Unless the server's words say what is wrong."""
    (found,) = check(seen(1), seen(2), seen(3, status=status, said=said))
    assert found.state is FindingState.FAIL
    assert found.text.startswith("1 of the last 3 requests of claude failed")
    assert f"HTTP {status}" in found.text
    assert fix in found.fix


@pytest.mark.parametrize(
    ("kind", "flag"),
    [("llama-server", "-c larger for llama-server, or"), ("vLLM", "--max-model-len larger for")],
)
def test_a_larger_context_is_asked_for_as_the_server_spells_it(kind, flag):
    """Nothing is said of the flags of others."""
    (found,) = check(seen(1, status=400, said="exceed_context_size_error"), kind=kind)
    assert found.fix.startswith(flag)


def test_an_only_request_is_not_called_the_last():
    """When and where it failed follows."""
    (found,) = check(seen(7, status=500))
    assert found.text.startswith("the only request of claude failed 2 min ago on /v1/")


def test_a_failure_that_was_followed_by_success_is_a_warning():
    """It is not how things stand now."""
    (found,) = check(seen(1), seen(2, status=503), seen(3), seen(4))
    assert found.state is FindingState.WARN
    assert found.text.startswith("1 of the last 4 requests failed, the last 2 min ago")


def test_one_client_s_success_does_not_hide_another_s_failures():
    """Each is looked at by itself."""
    broken = [seen(n, status=400) for n in (1, 2, 3)]
    works = [seen(n, "opencode") for n in range(4, 20)]
    (found,) = check(*broken, *works)
    assert found.state is FindingState.FAIL
    assert "all of the last 3 requests of claude" in found.text
    assert Record((*broken, *works)).failing.keys() == {"claude"}


def test_an_answer_that_broke_off_has_failed_and_a_client_that_left_has_not():
    """Though both have the status 200, or none."""
    (found,) = check(seen(1, outcome="upstream failed"))
    assert found.text.endswith("with an answer that broke off")
    assert check(seen(1, outcome="client left")) == []
    assert check(replace(seen(1, outcome="client left"), status=None)) == []
    assert record.check_requests(None, NOW) == []
