"""Claude Code for cacheproxy: rules for its attribution block, dates, git status, and skills."""

from __future__ import annotations

from cacheproxy import Client, CodeRule, Rule
from cacheproxy_claude_code.advice import ADVICE
from cacheproxy_claude_code.billing import BILLING_HEADER, DROP_BILLING_HEADER, LITERAL
from cacheproxy_claude_code.checks import cacheproxy_checkup
from cacheproxy_claude_code.env import cacheproxy_setup
from cacheproxy_claude_code.pins import PIN_CURRENT_DATE, PIN_DATE, PIN_GIT_STATUS, PIN_MONTH
from cacheproxy_claude_code.skills import KEEP_SKILLS

__all__ = ["CLIENT", "RULES", "cacheproxy_checkup", "cacheproxy_setup"]

CLIENT = Client(
    name="claude",
    agents=("claude-cli/",),
    headers=("x-claude-code-session-id",),
    # For gateways that send a user agent of their own. The system text begins with the attribution
    # header or, if that is switched off, with one of these sentences (2.1.114 to 2.1.329; also with
    # -p and the SDKs).
    head=(
        LITERAL,
        "You are Claude Code, Anthropic's official CLI for Claude",
        "You are a Claude agent, built on Anthropic's Claude Agent SDK",
    ),
    advice=ADVICE,
    title="Claude Code",
    names_agents=True,
    start="cacheproxy run{option} claude",
    sends_late="Claude Code 2.1.197 and later sends one in each turn",
)
RULES: tuple[Rule | CodeRule, ...] = (
    DROP_BILLING_HEADER,  # before the rule with the constant, which then has nothing to do
    BILLING_HEADER,
    KEEP_SKILLS,  # before the pins, which need the list in its old place
    PIN_CURRENT_DATE,
    PIN_GIT_STATUS,
    PIN_DATE,
    PIN_MONTH,
)
