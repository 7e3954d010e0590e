"""A conversation rendered by the real server, and what is said of it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from cacheproxy_demo.embedded import LlamaServer, write_model

from cacheproxy.asking import Site
from cacheproxy.core.conversation.verdict import Rewrite
from cacheproxy.core.template.rehearsal import Rehearsal
from cacheproxy.doctor import rehearse
from cacheproxy.doctor.finding import State
from cacheproxy.doctor.record import Record, Seen
from tests import needs
from tests.llama.templates import REWRITING, TEMPLATES

SEEN = (
    Seen(turn=2, rewrite=Rewrite.THINKING, lost=400),
    Seen(turn=3),
    Seen(turn=4, rewrite=Rewrite.THINKING, lost=500),
)
NOW = datetime(2026, 11, 22, 12, 58, tzinfo=UTC)


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory):
    """Return what a server with a template of that name makes of the conversation."""
    needs.llama()
    folder = tmp_path_factory.mktemp("templates")
    known = {}

    def rehearsed(name):
        if name not in known:
            template = (TEMPLATES | REWRITING)[name]
            model = write_model(folder / f"{name}.gguf", template=template)
            with LlamaServer(model, n_ctx=1024) as server:
                known[name] = rehearse.of_server(Site(server.url), datetime.now(UTC))
        return known[name]

    return rehearsed


@pytest.mark.llama
@pytest.mark.parametrize("name", ["inline", "user", "strict", "hoist", "drop", "turns"])
def test_templates_in_which_it_only_grows(rehearsed, name):
    """Whatever they do with late system messages, of which it has none."""
    (found,) = rehearse.check(rehearsed(name), "llama-server")
    assert (found.name, found.state) == ("template", State.OK)
    assert "only appends" in found.text


@pytest.mark.llama
def test_thinking_that_is_dropped_and_cannot_be_kept(rehearsed):
    (found,) = rehearse.check(rehearsed("think"), "llama-server")
    assert (found.state, found.fix) == (State.WARN, None)
    assert found.text.startswith(
        "at the second user message this template drops the thinking of the turn before: "
        "the server reads everything after the first user message again, whether the client"
    )
    assert "no chat_template_kwargs" in found.text


@pytest.mark.llama
def test_thinking_that_is_kept_when_asked(rehearsed):
    """The cure was tried; what it has cost is told where the proxy has counted it."""
    (found,) = rehearse.check(rehearsed("keep"), "llama-server", Record(SEEN))
    assert found.state is State.WARN
    assert found.fix.startswith("start the proxy with --keep-thinking yes")
    assert "it cost 900 tokens in 2 of the last 3 turns" in found.text
    (found,) = rehearse.check(rehearsed("keep"), "vLLM", Record(()))
    assert "it cost" not in found.text


@pytest.mark.llama
def test_thinking_that_the_proxy_keeps(rehearsed):
    (found,) = rehearse.check(rehearsed("keep"), "llama-server", None, "drops it: all keep it")
    assert (found.state, found.text) == (State.OK, "the template drops it: all keep it")
    (found,) = rehearse.check(rehearsed("think"), "llama-server", None, "whatever it says")
    assert found.state is State.WARN


@pytest.mark.llama
def test_tools_that_move(rehearsed):
    (found,) = rehearse.check(rehearsed("tools"), "llama-server")
    assert (found.state, found.fix) == (State.WARN, None)
    assert "moves the tools" in found.text
    assert found.text.endswith("; no fix is known")


@pytest.mark.llama
def test_a_clock_at_the_head(rehearsed):
    """The real strftime_now of the server."""
    found = rehearsed("clock")
    assert found.clock == "the time"
    (line,) = rehearse.check(found, "vLLM")
    assert line.state is State.WARN
    assert "prints the time" in line.text
    assert line.fix == (
        "start vLLM with --chat-template FILE: a copy of the template without that line"
    )


def test_a_date_costs_a_turn_a_day():
    (found,) = rehearse.check(Rehearsal((), None, "the date"), "Ollama")
    assert found.text.endswith("once a day")
    assert found.fix is None


def test_a_server_that_renders_nothing_for_us(peer, nobody):
    """Nothing is said."""
    assert rehearse.of_server(Site(nobody), NOW) is None
    assert rehearse.of_server(Site(peer({}).url), NOW) is None
    assert rehearse.check(None, "mlx-lm") == []


def test_a_server_that_wants_a_model_is_told_one(peer):
    """A router of llama-server, say: the first question is asked again with the model."""
    server = peer({"/apply-template": (400, {"error": "model name is missing"})})
    assert rehearse.of_server(Site(server.url), NOW, "m") is None
    assert server.asked == ["/apply-template"] * 2 + ["/tokenize"]
