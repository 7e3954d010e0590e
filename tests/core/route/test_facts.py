"""What a request is for, and how large it is, before it is sent."""

from __future__ import annotations

import pytest

from cacheproxy.core.conversation.lanes import Before
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.route.facts import RequestKind, facts_of, kind_of, tokens_of

from .builders import asking, found

TITLES = (
    "Generate a concise, sentence-case title (3-7 words) that captures the main topic.",
    "You are a title generator. You output ONLY a thread title. Nothing else.",
    "Analyze if this message indicates a new conversation topic. If it does, extract a title.",
)
COMPACTIONS = (
    "Your task is to create a detailed summary of the conversation so far, paying attention to …",
    "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary.",
    "Please summarize this conversation so that another agent can go on.",
)


@pytest.mark.parametrize("system", TITLES)
def test_a_title_is_asked_for_without_tools_by_the_system_text(system):
    """Before anything was answered; what a user types about titles is no title."""
    assert kind_of(*found(asking(system=system, tools=False))) is RequestKind.TITLE
    assert kind_of(*found(asking(system=system))) is RequestKind.MAIN
    assert kind_of(*found(asking(system=system, tools=False, answers=("yes",)))) is RequestKind.MAIN
    assert kind_of(*found(asking(system, tools=False))) is RequestKind.MAIN


@pytest.mark.parametrize("text", COMPACTIONS)
def test_a_compaction_is_asked_for_by_the_last_message(text):
    """With tools or without; an earlier message that reads so makes none."""
    for tools in (True, False):
        body = asking(tools=tools, answers=("done",))
        body["messages"][-1]["content"] = [{"type": "text", "text": text}]
        assert kind_of(*found(body)) is RequestKind.COMPACTION
        assert kind_of(*found(asking(text, tools=tools, answers=("done",)))) is RequestKind.MAIN


def test_a_compaction_without_tools_may_be_asked_for_by_the_system_text():
    """As opencode does."""
    system = "You are a helpful AI assistant tasked with summarizing conversations."
    body = asking(system=system, tools=False, answers=("a",))
    assert kind_of(*found(body)) in (RequestKind.COMPACTION, RequestKind.MAIN)


def test_a_count_of_tokens_is_a_count():
    """Whatever is counted."""
    assert kind_of(*found(asking(), path="/v1/messages/count_tokens")) is RequestKind.COUNT


def test_a_subagent_works_for_another_session():
    """By the name that its client gives it, or its parent."""
    agent = Session("claude", "s:agent")
    assert kind_of(*found(asking(), agent)) is RequestKind.SUBAGENT
    headers = {"x-parent-session-id": "root"}
    assert kind_of(*found(asking(), headers=headers)) is RequestKind.SUBAGENT
    assert kind_of(*found(asking())) is RequestKind.MAIN


def test_tokens_are_estimated_by_the_turn_before():
    """A tokenizer that took twice as many is reckoned with."""
    store = Store()
    asked, turn = found(asking("word " * 400), store=store)
    place = store.begin(turn, asked)
    first = tokens_of(turn)
    assert 400 < first < 1000
    assert turn.prompt is not None
    store.end(turn.session, place, Before(turn.prompt, turn.prompt, tokens=2 * first))
    _, again = found(asking("word " * 400, answers=("x",)), store=store)
    assert again.lane is not None
    assert 2 * first < tokens_of(again) < 2.2 * first


def test_the_facts_of_a_request():
    """As it says itself."""
    facts = facts_of(*found(asking()))
    assert (facts.client, facts.model, facts.has_tools) == ("claude", "m", True)
    assert facts_of(*found({"messages": "nonsense", "model": 7})).model == ""
