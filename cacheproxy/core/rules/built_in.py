"""The rules that are nobody's package: for all clients, and switched by name like all others."""

from __future__ import annotations

from cacheproxy.core.rules.calls_as_before import CALLS_AS_BEFORE
from cacheproxy.core.rules.code_rule import CodeRule
from cacheproxy.core.rules.tools_as_before import TOOLS_AS_BEFORE

BUILT_IN: tuple[CodeRule, ...] = (TOOLS_AS_BEFORE, CALLS_AS_BEFORE)
"""They run after those of packages and of the user, which may make more of a request as before."""
NAMES = frozenset(rule.name for rule in BUILT_IN)
"""Where only these are on, no client is cared for."""
