"""Members that a server refuses by name are left out; what was said, and what binds, stays."""

import pytest

from cacheproxy.core.adapt.fields import RefusedFields

from .mending import later, mended, refusal

FIELDS = RefusedFields()
HI = {"role": "user", "content": "hi"}
EXTRA = "Extra inputs are not permitted"
THOUGHT = {"type": "thinking", "thinking": "x"}


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
    ("words", "name"),
    [
        ("Field 'n': Value must be between 1 <= value <= 1, but got 2", "n"),
        ("logprobs is not supported with tools + stream", "logprobs"),
        ("top_logprobs requires logprobs to be set to true", "top_logprobs"),
        ("llama.cpp does not support 'store'.", "store"),
        ("Unknown parameter: 'verbosity'.", "verbosity"),
        ("Unrecognized request argument supplied: metadata", "metadata"),
        ("property 'seed' is unsupported", "seed"),
        ('json: unknown field "service_tier"', "service_tier"),
        ("unknown field `include`, expected one of `model`, `messages`", "include"),
        ("Additional properties are not allowed ('user' was unexpected)", "user"),
        ("f() got an unexpected keyword argument 'logit_bias'", "logit_bias"),
        ("Unsupported value: 'temperature' does not support 0.1 with this model.", "temperature"),
        ("Unsupported parameter: 'thinking' is not supported with this model", "thinking"),
        (refusal(EXTRA, 400, "include"), "include"),
        (f"include: {EXTRA}", "include"),
        (f"[{{'loc': ('body', 'include'), 'msg': '{EXTRA}'}}]", "include"),
        (refusal("Input should be 'low', 'medium' or 'high'", 422, "reasoning_effort"),
         "reasoning_effort"),
    ],
)  # fmt: skip
def test_a_member_that_is_named_goes(words, name):
    assert without("chat", {"a": 1, name: 2, "z": 3}, words) == "az"
    assert without("chat", {"a": 1}, words) is None, "it is not there"


@pytest.mark.parametrize(
    "words",
    [
        "Unknown parameter: 'tools'.",
        "Unknown parameter: 'response_format'.",
        "stop is not supported",
        refusal(EXTRA, 400, "messages"),
        refusal(EXTRA, 400, "messages", 0, "content"),
        refusal("Field required", 400, "model"),
        refusal(EXTRA, 401, "a"),
        refusal(EXTRA, 400, "tools", 0, "parameters", "x"),
        "Assistant response prefill is incompatible with enable_thinking.",
        "the field a of view",
        "is not supported",
    ],
)
def test_what_was_said_and_what_binds_the_answer_stays(words):
    tools = [{"parameters": {"x": 1}}]
    more = {"a": 1, "tools": tools, "response_format": {}, "stop": ["x"], "model": "m"}
    assert without("chat", more, words) is None


def test_an_older_name_of_a_limit():
    body, _ = mended(
        FIELDS,
        "chat",
        {"messages": [HI], "max_completion_tokens": 9},
        refusal(EXTRA, 422, "max_completion_tokens"),
    )
    assert body == {"messages": [HI], "max_tokens": 9}


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


def test_what_is_refused_in_one_message_goes_from_all():
    items = [HI | {"audio_id": 1}, HI, HI | {"audio_id": 2}]
    words = refusal(EXTRA, 400, "messages", 2, "ChatCompletionUserMessageParam", "audio_id")
    assert mended(FIELDS, "chat", {"messages": items}, words)[0] == {"messages": [HI, HI, HI]}
    tools = {"messages": [HI], "tools": [{"name": "f", "defer_loading": True}]}
    body, _ = mended(FIELDS, "messages", tools, f"tools.0.custom.defer_loading: {EXTRA}")
    assert body["tools"] == [{"name": "f"}]
    marked = [HI, {"role": "user", "content": [{"type": "text", "text": "x", "cache_control": {}}]}]
    words = refusal(EXTRA, 400, "messages", 1, "content", "list[Block]", 0, "cache_control")
    body, _ = mended(FIELDS, "messages", {"messages": marked}, words)
    assert body["messages"][1]["content"] == [{"type": "text", "text": "x"}]


def test_several_one_after_the_other_and_one_inside_another():
    more = {"output_config": {"effort": "high", "task_budget": 1}, "a": 1}
    inner, outer = (("output_config", "effort"), ("output_config",))
    words = [refusal(EXTRA, 400, *path) for path in (inner, outer)]
    assert without("messages", more, *words) == "a"


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


@pytest.mark.parametrize(
    "words",
    [
        refusal("Field required", 400, "messages", 1, "content", 0, "thinking", "signature"),
        "messages.1.content.0.thinking.signature: Field required, missing signature",
    ],
)
def test_reasoning_gets_an_empty_signature(words):
    said = {"role": "assistant", "content": [THOUGHT, THOUGHT | {"signature": "s"}]}
    asked = {"messages": [HI, said, HI]}
    body, facts = mended(FIELDS, "messages", asked, words)
    said = [THOUGHT | {"signature": ""}, THOUGHT | {"signature": "s"}]
    assert body["messages"][1]["content"] == said
    assert later(FIELDS, "messages", asked, facts) == body
