"""The explanation of a break in words for people: shapes and places, never the text itself."""

from __future__ import annotations

from collections.abc import Mapping

from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import (
    CHANGED,
    Basis,
    Break,
    Reason,
    Rewrite,
    TokenCount,
    Verdict,
)
from cacheproxy.core.diff.kind import ChangeKind
from cacheproxy.core.judge.advice import is_curable

PHRASES: Mapping[str, str] = {
    Reason.MODEL_CHANGED: "Another model was asked for",
    Reason.SYSTEM_CHANGED: "The system text changed",
    Reason.TOOLS_CHANGED: "The list of tools changed",
    Reason.MESSAGES_CHANGED: "An earlier message changed",
    Reason.PARAMETERS_CHANGED: "A parameter of the request changed",
    Reason.PREVIOUS_NOT_FOUND: "This proxy has not seen the turn before",
    Reason.TEMPLATE_CHANGED: "The chat template rendered earlier text anew",
    Reason.CHECKPOINT: "The server could only go back to an earlier checkpoint",
    Reason.CONTEXT_SHIFTED: "The server cut the start off a full context",
    Reason.CUT: "The server cut what had no room in its context",
    Reason.NOT_CACHED: "This server reuses nothing",
    Reason.MOVED: "Another server or worker answered",
    Reason.EVICTED: "The server had dropped the earlier prompt",
    Reason.UNKNOWN: "Unknown: every known cause was ruled out",
}
"""The meaning of each reason, as a short phrase for people."""

_PLAIN = {
    Reason.MODEL_CHANGED: "each model has its own cache",
    Reason.PREVIOUS_NOT_FOUND: "this proxy has not seen the turn before, or has forgotten it",
    Reason.CONTEXT_SHIFTED: "the turn before filled the context, so the server cut its beginning",
    Reason.NOT_CACHED: "the server reuses nothing: its prompt cache is off",
    Reason.MOVED: "the turn before went to another upstream",
}
FELT = 0.1
"""Share of all prompt tokens from which a loss deserves attention. A turn may lose a twentieth and
still be no break (``judge.cause``): twice that is more than such turns lose."""
BROKEN = 0.25
"""Share from which the cache is called breaking. One turn of four that loses everything reaches it;
a single break in a long day does not."""


def phrase(reason: str, shape: str | None) -> str:
    """Return the phrase for ``reason``, with the ``shape`` of the change if that is known."""
    said = PHRASES.get(reason, reason)
    return f"{said} ({shape})" if shape else said


def said_of(verdict: Verdict, usage: Usage) -> str:
    """Return the sentence on ``verdict``, without a full stop; "" if nothing broke."""
    reason = verdict.reason
    if reason is None:
        return ""
    where = verdict.where
    shared = verdict.expected if where is None else where.position
    if reason in CHANGED:
        return f"{_share(shared, usage.prompt)}{_change(where)}"
    if reason is Reason.TEMPLATE_CHANGED:
        return f"{_share(shared, usage.prompt)}{_rewritten(verdict)}"
    total = "the" if shared is None else f"{_about(shared)}{shared.tokens:,}"
    # What was compared: only a server can show prompts.
    both = "prompts" if verdict.basis is Basis.RENDERED else "requests"
    kept = f"{usage.reused or 0:,} of {total} tokens that both {both} share"
    if reason is Reason.CHECKPOINT:
        return f"the server could only go back to {kept}{_beneath(verdict)}"
    if reason is Reason.EVICTED:
        return f"the server still had {kept}: {', '.join(verdict.evidence)}"
    if reason is Reason.CUT:
        return _cut(verdict, usage)
    if reason is Reason.UNKNOWN:
        ruled_out = f" (ruled out: {'; '.join(verdict.ruled_out)})" if verdict.ruled_out else ""
        return f"no cause found{ruled_out}"
    return ", ".join(verdict.evidence) or _PLAIN[reason]


def _cut(verdict: Verdict, usage: Usage) -> str:
    if verdict.whole is None or usage.prompt is None:
        return "the server says that the prompt and its answer had no room in its context"
    of = "at least " if verdict.whole.source == "measured" else "~"
    return f"the server read {usage.prompt:,} of {of}{verdict.whole.tokens:,} tokens that were sent"


def command(number: int, verdict: Verdict, proxy: str = "") -> str:
    """Return the command that explains request ``number``, or proposes a rule if one may help.

    ``proxy``: option with which it finds this proxy, "" if it needs none.
    """
    propose = " --propose" if is_curable(verdict) else ""
    return f"cacheproxy diagnose {number}{propose}{proxy}"


def _about(count: TokenCount) -> str:
    return "" if count.source == "measured" else "~"


def _share(shared: TokenCount | None, prompt: int | None) -> str:
    if shared is None or not prompt:
        return ""
    return f"{_about(shared)}{min(1.0, shared.tokens / prompt):.1%} shared, then "


def _change(where: Break | None) -> str:
    if where is None:
        return f"{ChangeKind.TEXT} in the prompt"
    return f"{where.kind} in {where.path or 'the prompt'}"


def _rewritten(verdict: Verdict) -> str:
    if verdict.rewrite is Rewrite.CLOCK:
        return "clock in the template moved on"
    path = verdict.where and verdict.where.path
    return f"{verdict.rewrite or Rewrite.OTHER} by the template{f' in {path}' if path else ''}"


def _beneath(verdict: Verdict) -> str:
    beneath = verdict.beneath
    if beneath is None:
        return ""
    is_template = beneath is Reason.TEMPLATE_CHANGED
    return f" ({beneath}: {_rewritten(verdict) if is_template else _change(verdict.where)})"


def share_in_words(share: float) -> str:
    """Return ``share`` for people; a small one never reads as nothing."""
    if 0 < share < 0.001:
        return "less than 0.1 %"
    return f"{100 * share:.1f} %"
