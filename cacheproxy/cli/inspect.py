"""``cacheproxy inspect``: what captured requests say about the prompt cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shlex import quote
from typing import Any

import click
import msgspec

from cacheproxy.cli.settings import (
    OneLine,
    fail,
    json_option,
    print_json,
    read_settings,
    rules_options,
    tell,
)
from cacheproxy.core.diagnose.cure import Found
from cacheproxy.core.diagnose.inspection import Inspection, PartView
from cacheproxy.core.diagnose.inspection import inspect as inspect_records
from cacheproxy.core.diagnose.volatile import Field
from cacheproxy.core.diff.kind import ChangeKind
from cacheproxy.core.judge.advice import FREQUENCY
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.plugin.packages import configured
from cacheproxy.record.files import read
from cacheproxy.words import counted, visible

_ORDERS = {
    "hoisted": (PromptOrder.HOISTED,),
    "system": (PromptOrder.SYSTEM_FIRST,),
    "tools": (PromptOrder.TOOLS_FIRST,),
}
WIDTH = 96
_REPLACED = "the client replaced the whole history (a compaction)."
_BETWEEN = "constant in a session, not in the next"


@click.command(cls=OneLine)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--order",
    type=click.Choice(sorted(_ORDERS)),
    help=(
        "What the server's chat template prints first. By default inspect shows every order that "
        "makes a difference."
    ),
)
@rules_options
@json_option
def inspect(
    files: tuple[str, ...],
    *,
    order: str | None,
    config: str | None,
    plugin: tuple[str, ...],
    as_json: bool,
) -> None:
    """List what breaks the prompt cache in captured requests.

    FILE is a capture (JSON lines), a HAR file of any program, or a folder of them. Prints sizes,
    what changes between turns, all volatile fields with the rule that covers each, and how much
    of each prompt a server could reuse without the rules and with them.
    """
    records, problems = read(files)
    tell(problems)
    found = configured(read_settings(config, plugin))
    result = inspect_records(
        records,
        found.rules,
        found.active,
        orders=_ORDERS[order] if order else None,
        session=found.packages.session,
        clients=found.packages.clients,
    )
    if not result.prompts:
        if not problems:
            fail(f"{', '.join(files)}: no request with a prompt found")
    elif as_json:
        print_json(as_object(result, found.active))
    else:
        for line in lines(result, found.active, files):
            click.echo(visible(line))
    if problems:
        raise SystemExit(2)


def as_object(result: Inspection, active: frozenset[str]) -> dict[str, Any]:
    """Return ``result`` as a JSON object; ``active``: the names of the active rules."""
    built: dict[str, Any] = {
        name: msgspec.to_builtins(getattr(result, name))
        for name in result.__dataclass_fields__
        if name not in ("fields", "between")
    }
    for name in ("fields", "between"):
        built[name] = [_field_object(field, active) for field in getattr(result, name)]
    return built


def _field_object(field: Field, active: frozenset[str]) -> dict[str, Any]:
    """Return a volatile field as a JSON object; ``active``: names of the rules that are on."""
    return {
        "path": field.path,
        "class": field.kind.value,
        "part": field.part.value,
        **{name: getattr(field, name) for name in ("source", "label", "was", "now", "count")},
        "rule": field.rules[0] if field.rules else None,
        "rule_on": bool(field.rules) and field.rules[0] in active,
        "rules": list(field.rules),
        "covered": field.covered,
    }


def lines(result: Inspection, active: frozenset[str], files: Sequence[str]) -> Iterator[str]:
    """Yield the lines of the report on ``result``; ``active``: the names of the active rules."""
    sessions = max((field.count for field in result.between), default=0)
    sections = (
        [_head(result)],
        _parts(result),
        [f"  {_times(result.replaced)} {_REPLACED}"] if result.replaced else [],
        _late(result),
        _fields("volatile field", "turns", result.fields, result.steps, active),
        _fields(_BETWEEN, "sessions", result.between, sessions, active),
        _nothing(result),
        _sides(result),
        _reuse(result),
    )
    for section in sections:
        if shown := list(section):
            yield from (*shown, "")
    named = " ".join(quote(name) for name in files)
    bare = [field for field in result.fields if not field.rules]
    if any(field.kind in FREQUENCY and field.source == "client" for field in bare):
        yield f"  Next: cacheproxy diagnose --propose --from {named}"
    elif result.more:
        names = ",".join(result.more)
        yield f"  Next: --enable {names}, or enable = [...] in the config file and SIGHUP"


def _nothing(result: Inspection) -> Iterator[str]:
    """Yield a line if there is no volatile field, with the reason."""
    if result.fields or result.between:
        return
    if result.steps:
        yield "  No volatile field: every turn extends the one before."
    else:
        yield "  No turn follows another one, so there is nothing to compare."


def _late(result: Inspection) -> Iterator[str]:
    """Yield two lines on system messages late in the list, if there are any."""
    if result.late:
        requests = counted(result.late, "request")
        most = counted(result.most_late, "system message")
        yield f"  {requests} with system messages late in the list, up to {most}."
        yield "  Templates print them in place, move them to the head (hoisted), or refuse them."


def _head(result: Inspection) -> str:
    """Return the first line: requests, sessions and time at the left, clients and models right."""
    shown = [counted(result.prompts, "request"), counted(len(result.sessions), "session")]
    if result.seconds:
        shown.append(_duration(result.seconds))
    models = sorted({model for session in result.sessions for model in session.models})
    clients = sorted({session.client for session in result.sessions})
    whom = f"{', '.join(clients)} → {', '.join(models) or 'a model'}"
    left = ", ".join(shown)
    others = result.requests - result.prompts
    left += f" ({others} more without a prompt)" if others else ""
    gap = max(3, WIDTH - len(left) - len(whom))
    return f"{left}{' ' * gap}{whom}"


def _parts(result: Inspection) -> Iterator[str]:
    """Yield the table of the prompt's parts: tokens, share, and the turns that change them."""
    yield f"  {'part':<14}{'tokens':>9}  {'share':>6}   changes between turns"
    for part in result.parts:
        start = f"  {part.name:<14}{_tokens(part.chars, result):>9}  {part.share:>6.1%}   "
        yield start + _changes(part, result)


def _changes(part: PartView, result: Inspection) -> str:
    """Return how many turns change ``part``, and where that breaks the cache, in words."""
    if part.name == "last message":
        return "(expected)"
    if part.name == "history" and not part.changed:
        return "append only"
    what = f"{part.changed} of {result.steps}"
    if not part.breaks or part.breaks_at is None:
        return what
    often = "" if part.breaks == result.steps else f", {_times(part.breaks)}"
    at = _tokens(part.breaks_at, result)
    return f"{what:<10} ← breaks the cache at token {at}{often}"


def _fields(
    title: str, often: str, fields: Sequence[Field], steps: int, active: frozenset[str]
) -> Iterator[str]:
    """Yield a table of ``fields``, two lines each; ``often``: heading of "N of ``steps``"."""
    if fields:
        yield f"  {title:<40}{'class':<16}{often:<11}rule"
    for field in fields:
        name, seen = _cut(field_name(field), 38), f"{field.count} of {steps}"
        yield f"  {name:<40}{field.kind.value:<16}{seen:<11}{_rule(field, active)}"
        yield f"      {_example(field, WIDTH - 6)}"


def _rule(field: Field, active: frozenset[str]) -> str:
    """Return a field's rule, with ``(off)`` or ``(2 of 3)`` if it covers a part; else ``none``."""
    if not field.rules:
        return "none"
    name = field.rules[0]
    state = "" if name in active else " (off)"
    partly = f" ({field.covered} of {field.count})" if field.covered < field.count else ""
    return f"{name}{state}{partly}"


def field_name(field: Field | Found) -> str:
    """Return a field's place, and its label if it has one, for people: ``system[2] "cch="``."""
    label = " ".join(field.label.split())
    shown = place_name(field.path)
    return f'{shown} "{label}"' if label else shown


def place_name(path: str) -> str:
    """Return a JSON pointer or path pattern for people: ``messages[3]``, ``system``; "": all."""
    first, *rest = [step for step in path.split("/") if step] or ["the request"]
    for step in rest:
        if step.isdecimal() or step == "*":
            first += f"[{step}]"
        elif step not in ("text", "content", "parts"):
            first += f".{step}"
    return first


def _example(field: Field, width: int) -> str:
    """Return the field's text before and after, in ``width`` characters."""
    was, now = (" ".join(text.split()) for text in (field.was, field.now))
    if field.kind is ChangeKind.MOVED:
        return _cut(was, width)
    half = (width - 3) // 2
    return f"{_cut(was, half) or '(nothing)'} → {_cut(now, half) or '(nothing)'}"


def _sides(result: Inspection) -> Iterator[str]:
    """Yield the table of side requests: their sizes, and how often they evict a session."""
    if result.sides:
        yield f"  {'side requests':<32}{'tokens':>9}{'tools':>8}   between turns"
    for side in result.sides:
        name = f"{side.requests} beside {side.session}"
        often = f"{_times(side.evictions)}   ← evicts it from a single slot"
        yield (
            f"  {name:<32}{_tokens(side.chars, result):>9}{side.tools:>8}   "
            f"{often if side.evictions else 'never'}"
        )


def _reuse(result: Inspection) -> Iterator[str]:
    """Yield the table of what can be reused, without the rules and with them."""
    if not result.steps:
        return
    yield "  Reuse, by characters equal to the turn before   (~ estimated, first turns not counted)"
    head = f"  {'':<16}{'without rules':>14}"
    are = "is" if len(result.rules) == 1 else "are"
    if result.rules:
        head += f"   with {counted(len(result.rules), 'rule')} that {are} on"
    if result.more:
        head += f"   and {', '.join(result.more)}"
    yield head
    for reuse in result.reuse:
        row = f"  {reuse.order.value:<16}{f'~{reuse.without:.1%}':>14}"
        if result.rules:
            row += f"   {f'~{reuse.with_rules:.1%}':>{len('with 1 rule that is on')}}"
        if result.more:
            row += f"   {f'~{reuse.with_more:.1%}':>10}"
        yield row


def _tokens(chars: float, result: Inspection) -> str:
    """Return the number of tokens estimated for ``chars`` characters: ``≈1,234``."""
    return f"≈{round(chars / result.chars_per_token):,}"


def _cut(text: str, width: int) -> str:
    """Return ``text``, cut to ``width`` characters, the last one then ``…``."""
    return text if len(text) <= width else text[: width - 1] + "…"


def _times(count: int) -> str:
    """Return ``once``, ``twice``, ``3 times``."""
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def _duration(seconds: float) -> str:
    """Return a time for people: ``12 s``, ``3 min 4 s``, ``1 h 2 min``."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
