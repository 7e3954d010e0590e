"""Why a turn broke, as one sentence for people: shapes and places, never the text itself."""

from __future__ import annotations

from typing import NamedTuple

from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import (
    CHANGED,
    Basis,
    Count,
    Evidence,
    Reason,
    Rewrite,
    Verdict,
)
from cacheproxy.core.diff.kind import Kind

_CLOCK = "clock in the template moved on"


class Facts(NamedTuple):
    """What a sentence is made of; counts are of tokens.

    ``shared``: by the two prompts. ``path``, ``kind``: of the first difference, where one is to
    blame. The rest as in ``Verdict``.
    """

    reason: Reason
    prompt: int | None = None
    reused: int | None = None
    shared: Count | None = None
    path: str | None = None
    kind: Kind | None = None
    basis: Basis | None = None
    rewrite: Rewrite | None = None
    beneath: Reason | None = None
    evidence: tuple[Evidence, ...] = ()
    ruled_out: tuple[str, ...] = ()


def explain(facts: Facts) -> str:
    """Return the sentence, without a full stop."""
    reason = facts.reason
    if reason in CHANGED:
        return f"{_share(facts)}{_change(facts)}"
    if reason is Reason.TEMPLATE_CHANGED:
        return f"{_share(facts)}{_rewritten(facts)}"
    kept = f"{facts.reused or 0:,} of {_told(facts)} tokens that both {_which(facts)} share"
    if reason is Reason.CHECKPOINT:
        beneath = f" ({_beneath(facts)})" if facts.beneath is not None else ""
        return f"the server could only go back to {kept}{beneath}"
    if reason is Reason.EVICTED:
        return f"{kept} were left: {', '.join(facts.evidence)}"
    if reason is Reason.UNKNOWN:
        ruled_out = f" (ruled out: {'; '.join(facts.ruled_out)})" if facts.ruled_out else ""
        return f"why is not known{ruled_out}"
    return _PLAIN[reason]


_PLAIN = {
    Reason.MODEL_CHANGED: "another model has another cache",
    Reason.PREVIOUS_NOT_FOUND: "nothing more is known of the turn before",
    Reason.CONTEXT_SHIFTED: "the turn before filled the context, so the server cut its beginning",
    Reason.NOT_CACHED: "the server reuses nothing, its prompt cache is off",
    Reason.MOVED: "the turn before went to another upstream",
}


def _share(facts: Facts) -> str:
    if facts.shared is None or not facts.prompt:
        return ""
    share = min(1.0, facts.shared.tokens / facts.prompt)
    return f"{'' if facts.shared.source == 'measured' else '~'}{share:.1%} shared, then "


def _change(facts: Facts) -> str:
    return f"{facts.kind or Kind.TEXT} in {facts.path or 'the prompt'}"


def _rewritten(facts: Facts) -> str:
    if facts.rewrite is Rewrite.CLOCK:
        return _CLOCK
    where = f" in {facts.path}" if facts.path else ""
    return f"{facts.rewrite or Rewrite.OTHER} by the template{where}"


def _beneath(facts: Facts) -> str:
    is_template = facts.beneath is Reason.TEMPLATE_CHANGED
    return f"{facts.beneath}: {_rewritten(facts) if is_template else _change(facts)}"


def _which(facts: Facts) -> str:
    """What was compared: only a server can show prompts."""
    return "prompts" if facts.basis is Basis.RENDERED else "requests"


def _told(facts: Facts) -> str:
    if facts.shared is None:
        return "the"
    return f"{'' if facts.shared.source == 'measured' else '~'}{facts.shared.tokens:,}"


def said_of(verdict: Verdict, usage: Usage) -> str:
    """Return the sentence on ``verdict``, "" where nothing broke."""
    facts = facts_of(verdict, usage)
    return "" if facts is None else explain(facts)


def facts_of(verdict: Verdict, usage: Usage) -> Facts | None:
    """Return what there is to say of ``verdict``; None where nothing broke."""
    if verdict.reason is None:
        return None
    where = verdict.where
    return Facts(
        verdict.reason,
        usage.prompt,
        usage.reused,
        verdict.expected if where is None else where.position,
        None if where is None else where.path,
        None if where is None else where.kind,
        verdict.basis,
        verdict.rewrite,
        verdict.beneath,
        verdict.evidence,
        verdict.ruled_out,
    )
