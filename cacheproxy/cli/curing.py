"""Rules that cure: proven by the running proxy, or proposed from captures; as text, and applied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from cacheproxy.asking import CommandError
from cacheproxy.cli.inspecttext import field_name
from cacheproxy.cli.running import get_json
from cacheproxy.configfile import append
from cacheproxy.core.diagnose.cure import Cure, Found

PAGE = "/_cacheproxy/cure/"


def cure_lines(cure: Cure, how: str) -> Iterator[str]:
    """Yield the rules as TOML, and all else as comments. ``how``: what applies them."""
    if not cure.found:
        where = f"that changed in request {cure.number}" if cure.number else "that changed"
        yield f"# Nothing to propose: each field {where} has a rule."
    for one in cure.found:
        yield from _found(one)
    if not cure.edits:
        yield (
            "# The upstream is not a local server, so rules edit nothing (--edit-remote changes "
            "this)."
        )
    elif how and cure.can_apply:
        yield f"# {how}"


def _found(one: Found) -> Iterator[str]:
    name = f"{field_name(one)} ({one.kind})"
    if one.toml:
        seen = f"seen in {one.seen[0]} of {one.seen[1]} turns." if one.seen else ""
        yield f"# {name}: {one.won.says if one.won else seen or 'proven on this turn.'}"
        yield from one.toml.rstrip().split("\n")
    elif one.on:
        yield f"# {name}: rule {one.on[0]} is on and makes it constant from now on."
    elif one.rules:
        yield f"# {name}: rule {one.rules[0]} is installed but off."
    else:
        yield f"# No rule for {name}: {one.why}."


def apply(cure: Cure, proxy: str, token: Mapping[str, str], config: str | None) -> str:
    """Have the proxy write the rules of ``cure`` into the file that it reads, and read it again.

    Those that are there, but off, are switched on in it.

    Return what was done, in a line. ``config``: another file, which is written here. Raises
    CommandError; then the file is as it was.
    """
    if config is None or Path(config).expanduser().resolve() == Path(cure.file).resolve():
        done = get_json(proxy, f"{PAGE}{cure.number}/apply", token, post=True)
        return str(done.get("said")) if isinstance(done, dict) else ""
    if cure.why_not is not None:
        raise CommandError(f"nothing written: {cure.why_not}")
    added = append(cure.tables, config, cure.off)
    return (
        f"{added.what} {added.file}. The running proxy reads another file, {cure.file}: to use "
        f"this one, start the proxy with --config {added.file}"
    )
