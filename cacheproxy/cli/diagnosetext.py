"""The text of ``cacheproxy diagnose``: 96 columns, plain."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from cacheproxy.cli.inspect import place_name
from cacheproxy.core.conversation.verdict import CHANGED, Basis, Judgement, Reason, TokenCount
from cacheproxy.core.diagnose.report import TurnReport
from cacheproxy.core.judge.cause import near

_SAID = (Reason.MODEL_CHANGED, Reason.PREVIOUS_NOT_FOUND, Reason.CUT)
"""Reasons that the first sentence of the text already names."""


def lines(found: TurnReport) -> Iterator[str]:
    """Yield the lines of a report on one turn."""
    yield _head(found)
    yield ""
    for line in (*wrap(_verdict(found), 94), *_server(found)):
        yield f"  {line}"
    yield ""
    yield from _place(found)
    if found.kind is not None:
        about = f"{found.kind.value}{f', {found.frequency}' if found.frequency else ''}"
        seen = f"seen in {found.seen[0]} of {found.seen[1]} turns" if found.seen else ""
        yield from _row("class", about, seen)
    for name in found.rules[:1]:
        yield from _row("rule", f"{name} ({'on' if name in found.on else 'off'})")
    if found.lost is not None:
        seconds = f", about {found.seconds_lost:.1f} s each time" if found.seconds_lost else ""
        yield from _row("cost", f"{_count(found.lost)} tokens{seconds}")
    if found.saved is not None and found.saved.tokens:
        yield from _row("saved", f"{_count(found.saved)} tokens by the proxy's edits")
    if found.advice:
        yield ""
        yield "  What to do"
        for advice in found.advice:
            lead = f"    {advice.do:<13}"
            yield from wrap(
                advice.why,
                96,
                initial_indent=lead if len(lead) < 18 else f"{lead} ",
                subsequent_indent=" " * 17,
                break_long_words=False,
                break_on_hyphens=False,
            )


def _head(found: TurnReport) -> str:
    """Return the first line: request, client, session, turn, and the turn compared with."""
    who = f"{found.client}, session {found.session[:8]}, turn {found.turn}"
    aside = " of a side request" if found.side else ""
    compared = f"   compared with turn {found.turn - 1}" if found.turn > 1 else ""
    return f"Request {found.number}   {who}{aside}{compared}"


def _verdict(found: TurnReport) -> str:
    """Return the sentence on how far the prompt equals the one before, and if that is a break."""
    if found.judgement is Judgement.COLD:
        return "The first turn of its conversation: there was no turn before it to reuse."
    if found.reason is Reason.CUT:
        return f"This prompt was cut: {found.says}."
    if found.reason is Reason.PREVIOUS_NOT_FOUND:
        return "This proxy has not seen the turn before."
    if found.reason is Reason.MODEL_CHANGED:
        return "This turn asks for another model than the turn before, so nothing can be reused."
    if found.equal is None or found.prompt is None:
        return "There is nothing to compare."
    share = min(1.0, found.equal.tokens / max(1, found.prompt.tokens))
    start = f"prompts are equal for {_count(found.equal)} of {_count(found.prompt)} tokens"
    start += f" ({share:.1%})"
    if found.reason is not None and found.reason not in CHANGED:
        # The rendered prompts may differ although the requests do not.
        start = start if found.basis is Basis.RENDERED else start.replace("prompts", "requests", 1)
        return f"The {start}."
    start = f"The {start}"
    if found.path is None:
        return f"{start}: no break." if found.judgement is not Judgement.UNKNOWN else f"{start}."
    differ = f"{start}, then differ in {place_name(found.path)}."
    if found.judgement is Judgement.COMPACTED:
        return (
            f"{differ} The client replaced the history by a shorter one (a compaction): no break."
        )
    if found.judgement is Judgement.OK:
        return f"{differ} That is no break."
    return differ


def _server(found: TurnReport) -> Iterator[str]:
    """Yield lines on what the server reused, and why it was not more."""
    if found.reused is None or found.evaluated is None:
        if found.judgement is Judgement.UNKNOWN:
            yield "The server does not say what it reused, so the cost is not known."
        return
    did = f"reused {found.reused:,} tokens and evaluated {found.evaluated:,}"
    if found.seconds:
        did += f" in {found.seconds:.1f} s"
    if found.reason in CHANGED and found.path is not None:
        equal = found.equal.tokens if found.equal is not None else found.reused
        agrees = abs(equal - found.reused) <= near(equal)
        yield f"The server agrees: it {did}." if agrees else f"The server {did}."
        return
    yield f"The server {did}."
    if found.reason is not None and found.reason not in _SAID:
        yield from wrap(f"{found.reason}: {found.says}.", 92)


def _place(found: TurnReport) -> Iterator[str]:
    """Yield the rows on the break: its place, its reason, and the texts before and after."""
    if found.path is not None:
        at = f", byte {found.byte:,}" if found.byte is not None else ""
        reason = f"reason  {found.reason}" if found.reason is not None else ""
        yield from _row("where", f"{found.path}{at}", reason)
    elif found.reason is not None:
        yield from _row("reason", found.reason)
    if found.excerpts is None:
        return
    start, end = found.excerpts.marked
    yield from _row("was", found.excerpts.was)
    yield from _row("now", found.excerpts.now)
    yield f"{'':<{10 + start}}{'^' * max(1, end - start)}"


def _row(name: str, text: str, right: str = "") -> Iterator[str]:
    """Yield the row ``name``; ``right`` stands beside ``text``, or below it if that is long."""
    left = f"  {name:<8}{text}"
    if not right:
        yield left
    elif len(left) <= 56:
        yield f"{left:<57}{right}"
    else:
        yield left
        yield f"          {right}"


def _count(count: TokenCount) -> str:
    """Return a number of tokens, with ``≈`` before it if it is not measured."""
    return f"{'' if count.source == 'measured' else '≈'}{count.tokens:,}"
