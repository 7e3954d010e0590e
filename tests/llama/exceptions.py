"""Turns that cannot reuse the whole prompt before them, though the proxy does what it can.

By capture, and there by the number of the POST request, from 1. The changes are real ones, or of
a kind that no rule covers. Each must break: a turn that no longer does has to leave this table.
"""

from __future__ import annotations

_FORMAT = "aider glues its format reminder to the last user message only"
_CONTEXT = "OpenClaw moves its internal context to the end"
_NEW = "a new session, with another question after the same system text"

EXCEPTIONS: dict[str, dict[int, str]] = {
    "aider-diff_file": {2: _FORMAT, 3: _FORMAT, 4: _FORMAT},
    "aider-stdin": {2: _FORMAT, 3: "the repository map changed", 5: "history was summarised"},
    "claude-compact": {6: "compaction: the history became a summary"},
    "claude-toolsearch": {4: "ToolSearch inserted two tools"},
    "claude-twosessions": {2: _NEW, 3: _NEW},
    "claude_2.1.197-resume": {3: "a system section and the Bash tool changed on resume"},
    "openclaw-anthropic": dict.fromkeys(range(2, 7), _CONTEXT),
    "openclaw-completions": dict.fromkeys(range(2, 7), _CONTEXT),
    "openclaw-datechange": dict.fromkeys(range(2, 9), _CONTEXT),
    "openclaw-gateway": {
        **dict.fromkeys((2, 3, 4, 5, 7, 10, 11, 12), _CONTEXT),
        8: "a subagent's result comes with other tools and system text",
        9: "and the next turn has the first ones again",
    },
    "openclaw-heartbeat": dict.fromkeys(range(2, 5), _CONTEXT),
    "openclaw-responses": dict.fromkeys((3, 4, 6), _CONTEXT),
    "openclaw-subagent": dict.fromkeys(range(2, 8), _CONTEXT),
    "qwen-resume": {
        **dict.fromkeys((3, 5, 7), "the git status changed on resume"),
        8: "a side request: memory extraction from another text",
    },
    "qwen-stream": {8: "a side request: memory extraction from another text"},
}
