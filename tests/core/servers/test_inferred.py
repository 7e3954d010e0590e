"""What the answers show of a server."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.dialects.chat import CHAT
from cacheproxy.core.dialects.messages import MESSAGES
from cacheproxy.core.dialects.responses import RESPONSES
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.core.servers.inferred import Inferred
from cacheproxy.core.servers.profile import Memory, MemoryKind, Profile, Reporting


def test_the_order_that_fits_most_is_the_order():
    """Where two fit as often, neither."""
    inferred = Inferred()
    for order, expected in (
        (PromptOrder.SYSTEM_FIRST, PromptOrder.SYSTEM_FIRST),
        (PromptOrder.TOOLS_FIRST, None),
        (PromptOrder.TOOLS_FIRST, PromptOrder.TOOLS_FIRST),
    ):
        inferred.saw_order(order)
        assert inferred.order is expected
        assert inferred.completed(Profile()).order is expected
    asked = Profile(order=PromptOrder.SYSTEM_FIRST)
    assert inferred.completed(asked).order is PromptOrder.SYSTEM_FIRST


def test_a_checkpoint_says_more_than_a_rewind():
    """A rewind may have met a checkpoint; pages say more than both."""
    inferred = Inferred()
    inferred.saw_rewind()
    assert inferred.completed(Profile()).memory == Memory(MemoryKind.REWINDABLE)
    inferred.saw_checkpoint()
    inferred.saw_rewind()
    slots = Profile(memory=Memory(slots=4))
    assert inferred.completed(slots).memory == Memory(MemoryKind.CHECKPOINTED, slots=4)
    blocks = Memory(MemoryKind.BLOCKS, block=16)
    assert inferred.completed(Profile(memory=blocks)).memory == blocks


def test_reuse_that_was_told_once_is_told_in_that_api():
    """Of others nothing is known."""
    inferred = Inferred()
    inferred.saw_reuse(CHAT, 0)
    inferred.saw_reuse(MESSAGES, None)
    assert not inferred.has_reported(CHAT)
    inferred.saw_reuse(CHAT, 80)
    assert inferred.has_reported(CHAT)
    assert not inferred.has_reported(MESSAGES)
    profile = inferred.completed(Profile())
    assert (profile.reuses, bool(profile.told_by)) == (True, True)


@pytest.mark.parametrize(
    ("known", "dialect", "counts", "reporting"),
    [
        (Reporting.UNKNOWN, CHAT, [0], Reporting.UNKNOWN),  # it may be a constant
        (Reporting.UNKNOWN, CHAT, [0, 80], Reporting.ALWAYS),
        (Reporting.UNKNOWN, CHAT, [80], Reporting.WHEN_SOME),  # as SGLang does
        (Reporting.NEVER, CHAT, [80], Reporting.WHEN_SOME),
        (Reporting.FLAGGED, RESPONSES, [128], Reporting.FLAGGED),  # vLLM's, which needs no flag
        (Reporting.FLAGGED, CHAT, [128], Reporting.ALWAYS),
        (Reporting.FLAGGED, MESSAGES, [128], Reporting.ALWAYS),
        (Reporting.WHEN_SOME, CHAT, [0, 128], Reporting.WHEN_SOME),
    ],
)
def test_when_reuse_is_told_is_learned_from_what_was_told(known, dialect, counts, reporting):
    inferred = Inferred()
    for count in counts:
        inferred.saw_reuse(dialect, count)
    assert inferred.completed(Profile(reporting=known)).reporting is reporting


def test_a_server_that_found_nothing_of_three_appended_turns_reuses_nothing():
    """Until it does; what is not told is no zero, and neither is a turn that was changed."""
    inferred = Inferred()
    for _ in range(9):
        inferred.saw_reuse(CHAT, None, appended=True)
        inferred.saw_reuse(CHAT, 0)
    assert inferred.completed(Profile()).reuses is None
    for expected in (None, None, False):
        inferred.saw_reuse(CHAT, 0, appended=True)
        assert inferred.completed(Profile()).reuses is expected
    assert inferred.completed(Profile(reuses=True)).reuses is True
    inferred.saw_reuse(CHAT, 80, appended=True)
    for _ in range(9):
        inferred.saw_reuse(CHAT, 0, appended=True)
    assert inferred.completed(Profile()).reuses is True
    assert inferred.completed(Profile(reuses=False)).reuses is True


def test_what_was_seen_is_forgotten_with_the_server():
    """All of it."""
    inferred, unknown = Inferred(), Profile()
    assert inferred.completed(unknown) is unknown
    inferred.saw_order(PromptOrder.SYSTEM_FIRST)
    inferred.saw_checkpoint()
    inferred.saw_reuse(CHAT, 80)
    before = inferred.changes
    inferred.forget()
    assert inferred.changes > before
    assert inferred.completed(Profile()) == Profile()
    assert not inferred.has_reported(CHAT)


FACTS = st.one_of(
    st.tuples(st.just("saw_order"), st.sampled_from(list(PromptOrder))),
    st.tuples(st.just("saw_rewind")),
    st.tuples(st.just("saw_checkpoint")),
    st.tuples(
        st.just("saw_reuse"),
        st.sampled_from([CHAT, MESSAGES, RESPONSES]),
        st.none() | st.integers(-5, 10**9),
    ),
    st.tuples(st.just("forget")),
)


@given(st.lists(FACTS, max_size=30))
def test_changes_grow_whenever_something_new_is_said(facts):
    """Whoever keeps a completed profile can rely on it."""
    inferred = Inferred()
    said, changes = inferred.completed(Profile()), inferred.changes
    for name, *arguments in facts:
        getattr(inferred, name)(*arguments)
        now = inferred.completed(Profile())
        if now != said:
            assert inferred.changes > changes
        said, changes = now, inferred.changes
