"""The attribution block becomes one constant, or goes, at the head of the prompt and only there."""

from itertools import product

import pytest
from cacheproxy_claude_code import RULES
from cacheproxy_claude_code.billing import CONSTANT

from cacheproxy.testing import assert_idempotent, assert_untouched, normalized, request, rule_named

CONSTANT_RULE = rule_named(RULES, "claude-billing-header")
DROP = rule_named(RULES, "claude-drop-billing-header")
ON = [CONSTANT_RULE]
BOTH = [rule for rule in RULES if rule in (CONSTANT_RULE, DROP)]

SEEN = [
    "x-anthropic-billing-header: cc_version=2.1.114.9a3; cc_entrypoint=sdk-cli; cch=2ca14;",
    "x-anthropic-billing-header: cc_version=2.1.329.bcf; cc_entrypoint=cli;",
    (
        "x-anthropic-billing-header: cc_version=2.1.285.03f; cc_entrypoint=sdk-ts; cch=00000; "
        "cc_workload=cron; cc_is_subagent=true; cc_prev_req=req_011CabC-d_e; "
        "cc_prompt_id=775b2410-8917-4fad-af9d-cfcbf526eee8; cc_turn_origin=human; "
        "cc_prompt_index=3; cc_turn_index=3; cc_request_class=main;"
    ),
    "x-anthropic-billing-header: cc_version=2.1.36; cch=0123456789abcdef;",
    "x-anthropic-billing-header: cc_version=2.1.36; cch=;",
    "x-anthropic-billing-header: cc_workload=cron; some-new.key=~x/y?; cch=fffff;",
    "x-anthropic-billing-header: cc_version=2.1.36; cch=2ca14",
    "x-anthropic-billing-header:cc_version=2.1.36;cch=2ca14;",
]
AFTER = ["", "You are Claude.", " You are Claude.", "\nYou are Claude; a=b;", "\n\na=b;", " 1=2;"]

HEADS = {
    "anthropic-blocks": ("/v1/messages", lambda text: {"system": [block(text), block("later")]}),
    "anthropic-string": ("/v1/messages", lambda text: {"system": text}),
    "chat-string": ("/v1/chat/completions", lambda text: {"messages": [message(text), user()]}),
    "chat-developer": (
        "/v1/chat/completions",
        lambda text: {"messages": [message(text, "developer"), user()]},
    ),
    "chat-blocks": (
        "/v1/chat/completions",
        lambda text: {"messages": [message([block(text)]), user()]},
    ),
    "responses-instructions": ("/v1/responses", lambda text: {"instructions": text, "input": "hi"}),
    "responses-input": (
        "/v1/responses",
        lambda text: {"input": [message([block(text, "input_text")]), user()]},
    ),
    "ollama": ("/api/chat", lambda text: {"messages": [message(text), user()]}),
}


def block(text, kind="text"):
    return {"type": kind, "text": text}


def message(content, role="system"):
    return {"role": role, "content": content}


def user(content="hi"):
    return message(content, "user")


def head(name, text):
    path, build = HEADS[name]
    return request(build(text), path)


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("header", SEEN)
def test_the_header_becomes_the_constant_and_nothing_else_changes(name, header):
    """On every API, with space before and text after it, only the header itself changes."""
    for before, after in product(["", "\n", " \n\t"], AFTER):
        if not header.endswith(";") and not after.startswith("\n") and after:
            continue  # a last pair without its semicolon ends with the line
        original = head(name, before + header + after)
        wanted = head(name, before + CONSTANT + after)
        assert normalized(ON, original).body == wanted.body
        assert_idempotent(ON, original)


@pytest.mark.parametrize(
    "text",
    [
        "x-anthropic-billing-header:",
        "x-anthropic-billing-header: You are Claude.",
        "x-anthropic-billing-header: see=above",
        "x-anthropic-billing-header: a =b;",
        "x-anthropic-billing-header:\ncch=2ca14;",
        "X-Anthropic-Billing-Header: cch=2ca14;",
        "You see x-anthropic-billing-header: cch=2ca14; here.",
        f"You are Claude.\n{SEEN[0]}",
    ],
)
@pytest.mark.parametrize("name", HEADS)
def test_what_is_no_header_at_the_start_stays(name, text):
    """The text must start with the literal, and at least one pair must follow it."""
    assert_untouched(BOTH, head(name, text))


@pytest.mark.parametrize("header", SEEN[:3])
def test_a_quoted_header_stays_wherever_it_stands(header):
    """Users, tools, the assistant, later system blocks and tool descriptions may quote it."""
    call = {"type": "tool_use", "id": "1", "name": "t", "input": header}
    quotes = [
        {
            "system": [block("You are Claude."), block(header)],
            "tools": [{"name": "t", "description": header, "input_schema": {"const": header}}],
            "messages": [
                user(header),
                message([call], "assistant"),
                user([{"type": "tool_result", "tool_use_id": "1", "content": header}]),
                user([{"type": "tool_result", "tool_use_id": "1", "content": [block(header)]}]),
                message(header),
                user([block(header)]),
            ],
        },
        {"messages": [user(header), message(header)], "metadata": {"system": header}},
        {"input": header},
        {"input": [{"role": "user", "content": [block(header, "input_text")]}]},
    ]
    for quote in quotes:
        for path in ("/v1/messages", "/v1/chat/completions", "/v1/responses", "/api/chat"):
            assert_untouched(BOTH, request(quote, path))


def test_a_header_is_changed_at_the_head_and_left_in_the_same_body():
    body = {"messages": [user(SEEN[0])], "system": [block(SEEN[0]), block(SEEN[0])]}
    wanted = {"messages": [user(SEEN[0])], "system": [block(CONSTANT), block(SEEN[0])]}
    assert normalized(ON, request(body)).body == request(wanted).body


ORDERS = {"alone": [DROP], "before": [DROP, CONSTANT_RULE], "after": [CONSTANT_RULE, DROP]}


@pytest.mark.parametrize("rules", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("header", SEEN[:3])
@pytest.mark.parametrize("name", HEADS)
def test_the_header_can_be_dropped(name, header, rules):
    """With text after it the header goes with the space around it; in both orders of the rules."""
    original = head(name, f"\n{header}\n\nYou are Claude.")
    assert normalized(rules, original).body == head(name, "You are Claude.").body
    assert_idempotent(rules, original)


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ({"system": [block(SEEN[0]), block("You")]}, {"system": [block("You")]}),
        ({"system": [block(SEEN[0])], "model": "m"}, {"model": "m"}),
        ({"system": SEEN[0], "model": "m"}, {"model": "m"}),
        ({"instructions": f"{SEEN[0]}\n", "input": "hi"}, {"input": "hi"}),
        ({"messages": [message(SEEN[0]), user()]}, {"messages": [user()]}),
        (
            {"messages": [message([block(SEEN[0])]), message("You"), user()]},
            {"messages": [message("You"), user()]},
        ),
        ({"messages": [message(SEEN[0])]}, {"messages": [message(SEEN[0])]}),
        (
            {"system": [block(SEEN[0]), block(SEEN[1]), block(f"{SEEN[2]} {SEEN[0]}You")]},
            {"system": [block("You")]},
        ),
    ],
)
def test_what_holds_only_the_header_goes_whole(body, wanted):
    """Blocks, messages and members that hold nothing else go; the last message never."""
    assert normalized([DROP], request(body)).body == request(wanted).body
    assert_idempotent([DROP], request(body))
