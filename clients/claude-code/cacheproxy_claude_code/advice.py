"""Settings of Claude Code that keep its prompts constant."""

from __future__ import annotations

ADVICE = (
    (
        "tools_changed",
        "Claude Code",
        (
            "ENABLE_TOOL_SEARCH=false: Claude Code then sends all tools in its first request: "
            "about twice as long a prompt, but no break"
        ),
    ),
    (
        "tools_changed",
        "Claude Code",
        (
            "MCP_CONNECTION_NONBLOCKING=0: Claude Code then waits up to 5 seconds for MCP "
            "servers before its first prompt"
        ),
    ),
    (
        "model_changed",
        "the client",
        (
            "cacheproxy run claude sets one model for all requests of Claude Code; use it if you "
            "did not change the model yourself"
        ),
    ),
    (
        "system message hoisted",
        "Claude Code",
        (
            "CLAUDE_CODE_TOTAL_TOKENS_REMINDER=off: Claude Code (2.1.233 and later) then does not "
            "send its token countdown, a system message in each turn"
        ),
    ),
    (
        "left during prefill",
        "Claude Code",
        (
            "cacheproxy run claude sets CLAUDE_STREAM_IDLE_TIMEOUT_MS and API_TIMEOUT_MS to an "
            "hour: either alone is not enough"
        ),
    ),
)
"""Advice: the cause of a break, the program whose setting helps, and the setting's effect."""
