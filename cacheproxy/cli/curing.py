"""A cure that the running proxy has proven: as text, and into the config file that it reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from cacheproxy.asking import CommandError, is_loopback
from cacheproxy.cli.inspecttext import field_name
from cacheproxy.cli.running import RunningError, get_json
from cacheproxy.configfile import append
from cacheproxy.core.diagnose.cure import Cure, Found

_RELOAD = "/_cacheproxy/reload"
_UNREAD = (
    "the proxy read its settings again but does not have the rule. Check that the proxy reads "
    "this file (container, other user) and that --disable does not name the rule."
)


def cure_lines(cure: Cure, command: str) -> Iterator[str]:
    """Yield the rules as TOML, and all else as comments. ``command``: what applies them."""
    if not cure.found:
        yield f"# Nothing to propose: each field that changed in request {cure.number} has a rule."
    for one in cure.found:
        yield from _found(one)
    if not cure.edits:
        yield (
            "# The upstream is not a local server, so rules edit nothing (--edit-remote changes "
            "this)."
        )
    elif command and cure.can_apply:
        yield f"# Switch it on, without a restart: {command}"


def _found(one: Found) -> Iterator[str]:
    name = f"{field_name(one)} ({one.kind})"
    if one.toml:
        yield f"# {name}:{f' {one.won.says}' if one.won else ' proven on this turn.'}"
        yield from one.toml.rstrip().split("\n")
    elif one.on:
        yield f"# {name}: rule {one.on[0]} is on and makes it constant from now on."
    elif one.rules:
        yield f"# {name}: rule {one.rules[0]} is installed but off."
    else:
        yield f"# No rule for {name}: {one.why}."


def apply(cure: Cure, proxy: str, token: Mapping[str, str], config: str | None) -> str:
    """Write the rules of ``cure`` into the file that the proxy reads, and have it read that.

    Those that are there, but off, are switched on in it.

    Return what was done, in a line. ``config``: another file. Raises CommandError; then the file
    is as it was.
    """
    if not cure.edits:
        raise CommandError(
            "nothing written: the upstream is not a local server, so rules edit nothing there "
            "(--edit-remote changes this)"
        )
    if config is None and not is_loopback(proxy):
        raise CommandError(
            f"nothing written: {proxy} runs on another machine. Put this into {cure.file} there "
            "and send the proxy SIGHUP"
        )
    done = append(cure.tables, config or cure.file, cure.off)
    what = "Made" if done.before is None else "Written to"
    if config is not None and done.file != Path(cure.file).resolve():
        return (
            f"{what} {done.file}. The running proxy reads another file, {cure.file}: to use this "
            f"one, start the proxy with --config {done.file}"
        )
    try:
        answer = get_json(proxy, _RELOAD, token, post=True)
        on = answer.get("rules") if isinstance(answer, dict) else None
        why = None if isinstance(on, list) and set(cure.names).issubset(on) else _UNREAD
    except RunningError as error:
        why = str(error)
    if why is not None:
        done.take_back()
        raise CommandError(f"{done.file} was not changed: {why}")
    made = " (a new file; the proxy also reads it when it starts)" if done.before is None else ""
    return f"{what} {done.file}{made}. In use now, without a restart: {', '.join(cure.names)}."
