"""``cacheproxy inspect``: what captured requests say about the prompt cache."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from cacheproxy.cli.inspecttext import lines
from cacheproxy.cli.settings import (
    OneLine,
    fail,
    json_option,
    print_json,
    read_settings,
    rules_options,
    tell,
)
from cacheproxy.core.diagnose.inspection import Inspection
from cacheproxy.core.diagnose.inspection import inspect as inspect_records
from cacheproxy.core.diagnose.volatile import Field
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.plugin.packages import configured
from cacheproxy.record.files import read
from cacheproxy.words import visible

_ORDERS = {
    "hoisted": (PromptOrder.HOISTED,),
    "system": (PromptOrder.SYSTEM_FIRST,),
    "tools": (PromptOrder.TOOLS_FIRST,),
}


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
    """Return ``result`` as a JSON object."""
    built: dict[str, Any] = {
        name: msgspec.to_builtins(getattr(result, name))
        for name in result.__dataclass_fields__
        if name not in ("fields", "between")
    }
    for name in ("fields", "between"):
        built[name] = [_field(field, active) for field in getattr(result, name)]
    return built


def _field(field: Field, active: frozenset[str]) -> dict[str, Any]:
    return {
        "path": field.path,
        "class": field.kind.value,
        "part": field.part.value,
        "source": field.source,
        "label": field.label,
        "was": field.was,
        "now": field.now,
        "count": field.count,
        "rule": field.rules[0] if field.rules else None,
        "rule_on": bool(field.rules) and field.rules[0] in active,
        "rules": list(field.rules),
        "covered": field.covered,
    }
