"""Doctor and a conversation in the same slots, with the real server."""

from __future__ import annotations

import json

import pytest
from cacheproxy_demo.embedded import LlamaServer

from cacheproxy.asking import Site
from cacheproxy.child.proxy import ChildProxy
from cacheproxy.config import Config
from cacheproxy.doctor.conclusion import Working, conclude
from cacheproxy.doctor.examine import Inputs, examine

pytestmark = pytest.mark.llama
ONE, FOUR = {"n_parallel": 1}, {"n_parallel": 4, "kv_unified": True}
CACHE, NO_CACHE = {"cache_ram_mib": 8192}, {"cache_ram_mib": 0}
AGENT = {"User-Agent": "opencode/1.18", "X-Session-Id": "3f9a"}


class Talk:
    """A conversation of about 2,500 tokens."""

    def __init__(self, url):
        self.site = Site(url, AGENT)
        self.messages = [{"role": "user", "content": "The garden is long and narrow. " * 350}]

    def turn(self):
        """Send the next turn; return the tokens evaluated and the length of the prompt."""
        request = {"model": "random", "max_tokens": 1, "messages": self.messages}
        answer = self.site.post("/v1/chat/completions", json.dumps(request).encode(), 60)
        usage = answer.json()["usage"]
        reused = usage["prompt_tokens_details"]["cached_tokens"]
        self.messages += [
            {"role": "assistant", "content": "It is grey."},
            {"role": "user", "content": "And the river?"},
        ]
        return usage["prompt_tokens"] - reused, usage["prompt_tokens"]

    def title(self):
        request = {"messages": [{"role": "user", "content": "stone river table " * 120}]}
        request |= {"model": "random", "max_tokens": 1}
        site = Site(self.site.url, {"User-Agent": "opencode/1.18", "X-Session-Id": "title"})
        assert site.post("/v1/chat/completions", json.dumps(request).encode(), 60).status == 200


@pytest.fixture
def around(model, tmp_path):
    """Let doctor come between two turns; return its report, and what the second turn cost."""

    def around(settings, *, title=False, **more):
        with (
            LlamaServer(model, **({"n_ctx": 16_384} | settings)) as server,
            ChildProxy(server.url) as proxy,
        ):
            talk = Talk(proxy.url)
            for number in range(2):
                talk.turn()
                if title and not number:
                    talk.title()
            inputs = Inputs(Config(), proxy.url, None, {}, tmp_path, **more)
            examined = examine(inputs, lambda _: None)
            return examined, *talk.turn()

    return around


@pytest.mark.parametrize(
    ("settings", "title"),
    [
        (ONE | NO_CACHE, True),
        (ONE | CACHE, False),
        (FOUR | NO_CACHE, False),
        (FOUR | NO_CACHE, True),
        (FOUR | CACHE, False),
    ],
)
def test_the_conversation_outlives_doctor(around, settings, title):
    """Whatever the server's settings: the next turn evaluates what is new in it."""
    _, evaluated, prompt = around(settings, title=title)
    assert prompt > 2000
    assert evaluated < 100


@pytest.mark.parametrize(
    ("settings", "costs"), [(FOUR | NO_CACHE, True), (FOUR | CACHE, False), (ONE | CACHE, False)]
)
def test_doctor_that_is_told_to_send_costs_the_conversation(around, settings, costs):
    """Else there would be nothing to ask for; with the RAM cache it costs nothing."""
    _, evaluated, prompt = around(settings, send=True)
    assert (evaluated > prompt - 100) is costs
    assert (evaluated < 100) is not costs


def test_one_slot_without_a_sign_of_a_ram_cache(around):
    """It asks, with the figure; told no, it sends nothing, and says which option does."""
    asked = []
    examined, evaluated, _ = around(ONE | NO_CACHE, ask=asked.append)
    (question,) = asked
    assert "600 tokens; the only slot holds a conversation of 2," in question
    (found,) = [one for one in examined.findings if one.name == "reuse"]
    assert found.text.startswith("test prompts were not sent: the only slot holds")
    assert "--send" in found.fix
    assert examined.trials == ()
    assert conclude(examined).answer is Working.YES  # by the agent's own turns
    assert evaluated < 100


def test_told_yes_it_sends_and_proves_that_there_is_no_ram_cache(around):
    """Its own first prompt does not come back, nor does the conversation."""
    examined, evaluated, prompt = around(ONE | NO_CACHE, ask=lambda _: True)
    assert evaluated > prompt - 100
    (found,) = [one for one in examined.findings if one.name == "cache-ram"]
    assert found.fix == "start llama-server with --cache-ram 8192"
    assert [trial.path for trial in examined.trials] == ["/v1/chat/completions", "/v1/messages"]


@pytest.mark.parametrize("slots", [ONE, FOUR])
def test_where_the_ram_cache_shows_nobody_is_asked(around, slots):
    """A title between two turns is enough."""
    examined, evaluated, _ = around(slots | CACHE, title=True, ask=pytest.fail)
    assert len(examined.trials) == 2
    assert evaluated < 100
