"""Members that a server refuses by name are left out; what was said, and what binds, stays."""

import pytest

from cacheproxy.core.adapt.fields import RefusedFields
from tests import transcript

from .mending import later, mended, refusal

FIELDS = RefusedFields()
HI = {"role": "user", "content": "hi"}


def without(api, more, *words):
    """What of the members ``more`` is left after the refusals ``words``, in alphabetical order."""
    root = "input" if api == "responses" else "messages"
    body, facts = mended(FIELDS, api, {root: [HI], **more}, *words)
    if body is None:
        return None
    assert body.pop(root) == [HI]
    assert later(FIELDS, api, {root: [HI], **more}, facts) == {root: [HI], **body}
    return "".join(sorted(body))


@pytest.mark.parametrize(
    ("items", "stays"),
    [
        ([HI], True),
        ([{"type": "function_call_output", "call_id": "c", "output": "x"}], True),
        ([HI, {"role": "assistant", "content": "x"}, HI], False),
        ([HI, {"type": "function_call", "call_id": "c"}], False),
    ],
)
def test_a_history_elsewhere_stays_unless_the_request_has_it(items, stays):
    """Without it, the model would answer as if nothing had been said."""
    words = "llama.cpp does not support 'previous_response_id'."
    asked = {"input": items, "previous_response_id": "r"}
    body, facts = mended(FIELDS, "responses", asked, words)
    assert body == (None if stays else {"input": items})
    if not stays:
        alone = {"input": [HI], "previous_response_id": "r"}
        assert later(FIELDS, "responses", alone, facts) == alone
    nothing = {"input": [HI], "previous_response_id": None}
    assert mended(FIELDS, "responses", nothing, words)[0] == {"input": [HI]}


@pytest.mark.parametrize(
    ("api", "more"),
    [
        ("ollama", {"think": True}),
        ("chat", {"reasoning_effort": "high"}),
        ("responses", {"reasoning": {"effort": "high"}}),
        ("messages", {"thinking": {"type": "adaptive"}}),
        ("messages", {"output_config": {"effort": "high"}}),
    ],
)
def test_a_model_that_does_not_reason(api, more):
    words = '"llama3" does not support thinking'
    assert without(api, {"a": 1, **more}, words) in ("a", "a" + "".join(more))
    if api == "messages":  # it may have been translated
        words = refusal("Input should be 'low'", 422, "reasoning_effort")
        assert without(api, {"a": 1, **more}, words) in ("a", "a" + "".join(more))


def test_all_that_is_said():
    transcript.holds("fields.txt", globals())
