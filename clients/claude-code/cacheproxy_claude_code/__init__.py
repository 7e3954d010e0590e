"""Claude Code for cacheproxy: its attribution block, dates and git status."""

from __future__ import annotations

from cacheproxy import CodeRule, Rule, hookimpl
from cacheproxy_claude_code.billing import BILLING_HEADER, DROP_BILLING_HEADER
from cacheproxy_claude_code.pins import PIN_CURRENT_DATE, PIN_DATE, PIN_GIT_STATUS

RULES: tuple[Rule | CodeRule, ...] = (
    DROP_BILLING_HEADER,  # before the constant, which then finds nothing left to do
    BILLING_HEADER,
    PIN_CURRENT_DATE,
    PIN_GIT_STATUS,
    PIN_DATE,
)


@hookimpl
def cacheproxy_rules() -> tuple[Rule | CodeRule, ...]:
    """Return the rules; the README says what each is for."""
    return RULES
