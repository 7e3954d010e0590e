"""Whose requests are Claude Code's: by user agent, header, or the beginning of the prompt."""

import cacheproxy_claude_code
import pytest
from cacheproxy_claude_code import CLIENT
from cacheproxy_claude_code.billing import CONSTANT

from cacheproxy.core.conversation.verdict import Judgement, Reason, Rewrite, Verdict
from cacheproxy.core.judge.advice import advice
from cacheproxy.testing import (
    assert_extends,
    assert_untouched,
    from_another,
    normalized,
    request,
    rules_of,
)

RULES = rules_of(cacheproxy_claude_code)
ON = [rule for rule in RULES if rule.default]
HEADER = "x-anthropic-billing-header: cc_version=2.1.114.9a3; cc_entrypoint=cli; cch=2ca14;"
IDENTITIES = (
    "You are Claude Code, Anthropic's official CLI for Claude.",
    "You are Claude Code, Anthropic's official CLI for Claude, running within",
    "You are a Claude agent, built on Anthropic's Claude Agent SDK.",
)
OWN = (
    {"User-Agent": "claude-cli/2.1.329 (external, sdk-cli)"},
    {"User-Agent": "Bun/1.4.4", "X-Claude-Code-Session-Id": "5db5fafd"},
)
GATEWAYS = ("litellm/1.80.0", "AsyncOpenAI/Python 2.20.0", "undici", "node", "")
OTHERS = ("codex_exec/0.169.0", "opencode/1.18.33", "QwenCode/0.24.4", "openclaw/2026.9.6")
DATE = "CWD: /home/me\nDate: 2026-11-2{}"


def native(*system):
    return {"system": [{"type": "text", "text": text} for text in system], "messages": []}


def translated(*system):
    """As LiteLLM and claude-code-router send it on."""
    blocks = [{"type": "text", "text": text} for text in system]
    return {"messages": [{"role": "system", "content": blocks}, {"role": "user", "content": "hi"}]}


SHAPES = {"/v1/messages": native, "/v1/chat/completions": translated}
each_shape = pytest.mark.parametrize(("path", "shape"), SHAPES.items(), ids=list(SHAPES))


@each_shape
@pytest.mark.parametrize("headers", OWN)
def test_its_own_headers_tell(path, shape, headers):
    """Whatever the prompt begins with: a system prompt of the user's own, too."""
    assert CLIENT.sent(request(shape("Be kind."), path, headers))


@each_shape
@pytest.mark.parametrize("agent", GATEWAYS)
def test_behind_a_gateway_the_beginning_of_the_prompt_tells(path, shape, agent):
    """The header, or where it is switched off the sentence that comes next."""
    headers = {"User-Agent": agent}
    turn = request(shape(HEADER, IDENTITIES[0], "Be kind."), path, headers)
    wanted = request(shape(CONSTANT, IDENTITIES[0], "Be kind."), path, headers)
    assert normalized(ON, turn).body == wanted.body
    for identity in IDENTITIES:
        assert CLIENT.sent(request(shape(identity, "Be kind."), path, headers))
        assert CLIENT.sent(request(shape(f"{identity}\nBe kind."), path, headers))


@each_shape
def test_a_rule_that_pins_works_behind_a_gateway_too(path, shape):
    """Also where the rule before it has taken the header out."""
    first, later = (shape(HEADER, DATE.format(day)) for day in (1, 2))
    later["messages"] += [{"role": "assistant", "content": "ho"}]
    sent = normalized(RULES, request(first, path))
    assert HEADER.encode() not in sent.body
    assert_extends(sent, normalized(RULES, request(later, path), sent))


@each_shape
@pytest.mark.parametrize("agent", OTHERS)
def test_a_user_agent_that_names_another_client_is_believed(path, shape, agent):
    turn = request(shape(HEADER, IDENTITIES[0], DATE.format(1)), path, {"User-Agent": agent})
    assert_untouched(RULES, from_another(turn), request(shape(HEADER, DATE.format(2)), path))


@each_shape
@pytest.mark.parametrize("agent", [*GATEWAYS, *OTHERS])
@pytest.mark.parametrize("text", [HEADER, *IDENTITIES])
def test_its_words_elsewhere_do_not_tell(path, shape, agent, text):
    """Later in the system text, from a user, a tool or the model, in late system messages."""
    headers = {"User-Agent": agent}
    body = shape(f"You are somebody. {text}", text, f"```\n{text}\n```", DATE.format(1))
    said = {"role": "user", "content": [{"type": "text", "text": f"{text}\n{DATE.format(1)}"}]}
    result = {"type": "tool_result", "tool_use_id": "1", "content": text}
    body["messages"] += [
        said,
        {"role": "assistant", "content": text},
        {"role": "user", "content": [result]},
        {"role": "system", "content": text},
    ]
    turn = request(body, path, headers)
    assert not CLIENT.sent(turn)
    assert_untouched(RULES, turn, request(shape(DATE.format(2)), path))


@pytest.mark.parametrize(
    ("verdict", "lines"),
    [
        (
            Verdict(Judgement.BREAK, Reason.TOOLS_CHANGED),
            ["Claude Code: ENABLE_TOOL_SEARCH=false", "Claude Code: MCP_CONNECTION_NONBLOCKING=0"],
        ),
        (
            Verdict(Judgement.BREAK, Reason.MODEL_CHANGED),
            ["nothing: each model", "the client: cacheproxy run claude"],
        ),
        (
            Verdict(Judgement.BREAK, Reason.TEMPLATE_CHANGED, rewrite=Rewrite.HOISTED),
            ["Claude Code: CLAUDE_CODE_TOTAL_TOKENS_REMINDER=off", "the proxy: --placement auto"],
        ),
    ],
)
def test_its_own_settings_are_advised(verdict, lines):
    found = [f"{one.do}: {one.why}" for one in advice(verdict, client=CLIENT)]
    assert all(line.startswith(start) for line, start in zip(found, lines, strict=False)), found
