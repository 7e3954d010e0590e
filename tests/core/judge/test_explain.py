"""Why a turn broke, as one sentence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import (
    Basis,
    Count,
    Evidence,
    Judgement,
    Reason,
    Rewrite,
    Verdict,
)
from cacheproxy.core.diff.kind import Kind
from cacheproxy.core.judge.explain import Facts, explain, facts_of
from cacheproxy.core.judge.judge import Before, judge
from cacheproxy.core.judge.proof import Proof
from cacheproxy.core.prompt.prompt import prompt_of
from cacheproxy.core.server.profile import Kind as Memories
from cacheproxy.core.server.profile import Memory, Profile
from tests.core.planting import chat, plant, request

MEASURED = Count(4_000, "measured")
ESTIMATED = Count(4_000, "estimated")


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        (
            Facts(Reason.SYSTEM_CHANGED, 10_000, 3_990, ESTIMATED, "/system/0/text", Kind.DATE),
            "~40.0% shared, then date in /system/0/text",
        ),
        (
            Facts(Reason.TOOLS_CHANGED, 10_000, 3_990, MEASURED, "/tools/3", Kind.REMOVED),
            "40.0% shared, then removed in /tools/3",
        ),
        (Facts(Reason.MESSAGES_CHANGED), "changed text in the prompt"),
        (
            Facts(
                Reason.TEMPLATE_CHANGED,
                10_000,
                3_990,
                MEASURED,
                "/messages/4/content/0/thinking",
                rewrite=Rewrite.THINKING,
            ),
            "40.0% shared, then thinking dropped by the template in /messages/4/content/0/thinking",
        ),
        (
            Facts(Reason.TEMPLATE_CHANGED, 10_000, 60, MEASURED, rewrite=Rewrite.CLOCK),
            "40.0% shared, then clock in the template moved on",
        ),
        (Facts(Reason.TEMPLATE_CHANGED), "rendered anew by the template"),
        (
            Facts(Reason.CHECKPOINT, 10_000, 1_000, MEASURED, basis=Basis.RENDERED),
            "the server could only go back to 1,000 of 4,000 tokens that both prompts share",
        ),
        (
            Facts(
                Reason.CHECKPOINT,
                10_000,
                1_000,
                ESTIMATED,
                "/messages/2/content",
                Kind.TEXT,
                beneath=Reason.MESSAGES_CHANGED,
            ),
            (
                "the server could only go back to 1,000 of ~4,000 tokens that both requests share "
                "(messages_changed: changed text in /messages/2/content)"
            ),
        ),
        (
            Facts(
                Reason.CHECKPOINT,
                reused=1_000,
                shared=MEASURED,
                basis=Basis.RENDERED,
                rewrite=Rewrite.HOISTED,
                beneath=Reason.TEMPLATE_CHANGED,
            ),
            (
                "the server could only go back to 1,000 of 4,000 tokens that both prompts share "
                "(template_changed: system message hoisted by the template)"
            ),
        ),
        (
            Facts(Reason.EVICTED, 10_000, 20, MEASURED, evidence=(Evidence.RESTARTED,)),
            "20 of 4,000 tokens that both requests share were left: the server was restarted",
        ),
        (
            Facts(Reason.EVICTED, evidence=(Evidence.OTHERS, Evidence.SLOTS)),
            (
                "0 of the tokens that both requests share were left: another conversation had its "
                "place meanwhile, no slot held it any more"
            ),
        ),
        (Facts(Reason.UNKNOWN), "why is not known"),
        (
            Facts(Reason.UNKNOWN, ruled_out=("the rendered prompts agree", "it was not restarted")),
            "why is not known (ruled out: the rendered prompts agree; it was not restarted)",
        ),
        (Facts(Reason.MODEL_CHANGED), "another model has another cache"),
        (Facts(Reason.PREVIOUS_NOT_FOUND), "nothing more is known of the turn before"),
        (
            Facts(Reason.CONTEXT_SHIFTED),
            "the turn before filled the context, so the server cut its beginning",
        ),
        (Facts(Reason.NOT_CACHED), "the server reuses nothing, its prompt cache is off"),
        (Facts(Reason.MOVED), "the turn before went to another upstream"),
    ],
)
def test_each_reason_in_a_sentence(facts, sentence):
    assert explain(facts) == sentence


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_one_whatever_is_known(reason):
    for beneath in (None, Reason.SYSTEM_CHANGED, Reason.TEMPLATE_CHANGED):
        said = explain(Facts(reason, beneath=beneath))
        assert said
        assert not said.endswith(".")
        assert "None" not in said


@pytest.mark.parametrize("prompt", [0, None, 3_999, 4_000])
@pytest.mark.parametrize("reason", [Reason.SYSTEM_CHANGED, Reason.TEMPLATE_CHANGED])
def test_no_more_than_all_is_ever_shared(prompt, reason):
    said = explain(Facts(reason, prompt, 0, MEASURED))
    assert ("100.0% shared" in said) is bool(prompt)


@pytest.mark.parametrize("judgement", [Judgement.OK, Judgement.COLD, Judgement.COMPACTED])
def test_there_is_nothing_to_say_where_nothing_broke(judgement):
    assert facts_of(Verdict(judgement), Usage(100, 90)) is None


def _percent(said):
    return [float(word.strip("~%")) for word in said.split() if word.endswith("%")]


SECRET = "a secret that nobody may read"


@given(
    reused=st.one_of(st.none(), st.integers(0, 2_000)),
    prompt=st.integers(0, 2_000),
    tokens=st.integers(0, 2_000),
    part=st.sampled_from(["system", "tools", "user", "nothing"]),
    memory=st.sampled_from(Memories),
    shared=st.one_of(st.none(), st.integers(0, 2_000)),
    rewrite=st.sampled_from(Rewrite),
)
def test_no_sentence_quotes_a_prompt_or_is_over_all(  # noqa: PLR0917 (a turn)
    reused, prompt, tokens, part, memory, shared, rewrite
):
    one, two = (prompt_of(request(body)) for body in plant(chat(2), PARTS[part]))
    proof = None
    if shared is not None and tokens and prompt:
        proof = Proof(tokens, prompt, min(shared, tokens, prompt), rewrite=rewrite)
    usage = Usage(prompt, reused)
    profile = Profile(memory=Memory(memory))
    verdict = judge(Before(one, one, tokens), two, two, usage, profile, proof=proof, first=False)
    facts = facts_of(verdict, usage)
    if facts is None:
        return
    said = explain(facts)
    assert "secret" not in said
    assert all(0 <= share <= 100 for share in _percent(said))
    if " of ~" in said or (" of " in said and "tokens that" in said):
        assert facts.reused <= facts.shared.tokens


def _told(place):
    def change(body, turn):
        text = f"{SECRET} {'abcdefg'[turn] * 4}"
        place(body, text)

    return change


PARTS = {
    "system": _told(lambda body, text: body["messages"][0].update(content=text)),
    "tools": _told(lambda body, text: body["tools"][0]["function"].update(description=text)),
    "user": _told(lambda body, text: body["messages"][1].update(content=text)),
    "nothing": lambda body, turn: None,
}
