"""Tests on real servers that run at each change; all others of their folder are nightly.

By module: the names of tests, as fnmatch has them. Each stands for what nothing else proves without
such a server. What a nightly test finds at the other APIs, templates and kinds of memory, the same
code does here; what is special about those, tests with recorded pages of such servers see
(tests/core, tests/translate, tests/proxy/{placing,proving,servers}).
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

import pytest

NAMED: dict[str, tuple[str, ...]] = {
    # one of each kind of proof: what was sent, slots, starts, the template, no way back
    "test_causes": (
        "*|llama-compacted|",
        "*|llama-clock-at-the-head|",
        "*|llama-message-edited|",
        "*|llama-siblings-in-one-slot|",
        "*|llama-evicted-by-a-title|",
        "*|llama-restarted|",
        "*|llama-hoisted|",
        "*|llama-tools-moved|",
        "*|llama-moved|",
        "*|qwen35-thinking-dropped|",
        "*|qwen35-result-cut|",
        "*|gemma3-append|",
    ),
    "test_as_before": ("*_cost_nothing",),
    "test_crowds": ("*",),
    "test_cure": ("test_from_a_break_*",),
    "test_fleet": ("*_a_file_or_a_command_*",),
    "test_metrics": ("*",),
    "test_placement": ("*_what_is_new|strict|", "*_what_is_new|hoist|", "*_heals_*|chat|"),
    "test_holding": ("*|4-/v1/chat/completions|", "*|4-/v1/messages|"),
    "test_prefill": ("*|prompt-stream-rst|", "*|token-at once-fin|", "*_pings|messages|"),
    "test_profile": ("*_a_reload_*", "*|think|", "*|tools|", "*_learned_anew", "*|64-1-expected0|"),
    "test_progress": ("*_as_without*", "*_gets_it|/v1/responses|"),
    "test_proving": ("*|think-*", "*|hoist-*", "*_says_so", "*|messages-claude-stream|"),
    "test_repairs": (
        "*_for_repaired_*|another cch of six-messages|",
        "*_placing_is_credited_*|messages|",
        "*_header_is_credited_*|another version-chat|",
    ),
    "test_reuse": (
        "*|claude-stream-messages|",
        "*|openclaw-completions-chat|",
        "*|codex-resume-responses|",
        "*_git_status_*|by its answers|",
        "*_names_a_turn_*",
    ),
    "test_stuck_parts": ("*|inline|", "*_stays_refused", "*|/v1/messages|"),
    "test_stuck_tools": ("*|inline|",),
    "test_thinking": ("*|llama-True-chat-True|", "*_cannot_rewind|qwen35|"),
    "test_translate_messages": (
        "*|tools-stream|",
        "*|a late system message-at once|",
        "*_thinking_*",
        "*_besides_*",
    ),
    "test_usage": ("*|/v1/messages-streamed|", "*|/v1/responses-streamed|", "*_how_far_*"),
    "test_vendors": (
        "*|DeepSeek-V3.1-claude|",
        "*_served_*|Mistral-Small-3.2-codex|",
        "*_at_once|Ministral-3-14B-Reasoning-claude|",
        "*_nothing_can_mend_*",
        "*_has_its_licence_*",
    ),
    "test_warming": ("*|chat-1|",),
}


def choose(items: list[pytest.Item]) -> list[str]:
    """Leave to the night what is not named; return names that no test of its module has."""
    called: dict[str, list[str]] = {}
    for item in items:
        name = re.sub(r"[\[\]]", "|", item.name)  # fnmatch would read brackets as a set
        called.setdefault(item.path.stem, []).append(name)
        if not any(fnmatchcase(name, one) for one in NAMED.get(item.path.stem, ())):
            item.add_marker("nightly")
    return [
        f"{module}: {one}"
        for module, names in called.items()
        for one in NAMED.get(module, ())
        if not any(fnmatchcase(name, one) for name in names)
    ]
