"""All checks together, with an agent at work."""

from __future__ import annotations

import json

import pytest

from cacheproxy.asking import Site
from cacheproxy.child.process import ChildProxy
from cacheproxy.client_setup.finding import FindingState
from cacheproxy.config import Config
from cacheproxy.doctor.examine import Inputs, examine
from cacheproxy.doctor.report import Working, conclude
from cacheproxy.doctor.trial import text
from tests.doctor.builders import head

pytestmark = pytest.mark.llama
AGENT = {"User-Agent": "claude-cli/2.1.285 (external, cli)"}


@pytest.fixture
def through(llama):
    """A proxy that no agent has used yet."""
    pytest.importorskip("cacheproxy_claude_code")
    with ChildProxy(llama.url) as service:
        yield service


@pytest.fixture
def look(through, tmp_path):
    """Examine it; return the verdict and the findings by name."""

    def look(**more):
        inputs = Inputs(Config(), through.url, None, {}, tmp_path, **({"send": False} | more))
        known, found = examine(inputs, lambda _: None)
        return conclude(known, found), {finding.name: finding for finding in found}

    return look


def converse(url, session, turns):
    """Send the turns of a conversation as Claude Code would."""
    site = Site(url, AGENT | {"X-Claude-Code-Session-Id": session})
    messages = [{"role": "user", "content": f"Look at the house. {session}"}]
    for number in range(turns):
        system = head("1a2", f"{number:05x}") + text(session)
        request = {"model": "m", "max_tokens": 1, "system": system, "messages": messages}
        assert site.post("/v1/messages", json.dumps(request).encode(), 60).status == 200
        messages += [
            {"role": "assistant", "content": "It is grey."},
            {"role": "user", "content": "And now the river, please."},
        ]


def test_a_server_that_refuses_the_agent(look, through):
    """NO, whatever our own prompt did, with the turn's number and the way to it."""
    converse(through.url, "fine", 2)
    site = Site(through.url, AGENT | {"X-Claude-Code-Session-Id": "bad"})
    long = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "oak " * 9000}]}
    assert site.post("/v1/messages", json.dumps(long).encode(), 60).status == 400
    conclusion, findings = look(send=True)
    assert conclusion.answer is Working.NO
    assert conclusion.text == "1 of the last 3 requests of claude failed."
    found = findings["requests"]
    assert found.state is FindingState.FAIL
    assert "on /v1/messages, with HTTP 400" in found.text


def test_our_own_prompts_leave_no_trace(look, through):
    """Nor is any of them the last request, to be explained by ``cacheproxy diagnose``."""
    converse(through.url, "only", 2)
    before = Site(through.url).get("/_cacheproxy/exchanges").json()
    _, findings = look(send=True)
    assert findings["reuse"].state is FindingState.OK
    assert Site(through.url).get("/_cacheproxy/exchanges").json() == before
    assert len(before["exchanges"]) == 2
    assert Site(through.url).get("/_cacheproxy/diagnose/last").json()["number"] == 2
