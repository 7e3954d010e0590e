"""A cure that the running proxy has proven: as text, and into the config file that it reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from cacheproxy.asking import CommandError, is_loopback
from cacheproxy.cli.inspecttext import field_name
from cacheproxy.cli.proposing import append
from cacheproxy.cli.running import RunningError, get_json
from cacheproxy.core.diagnose.cure import Cure, Found, Won

_RELOAD = "/_cacheproxy/reload"
_UNREAD = (
    "the proxy does not find the rule in it: is that file read where it runs (a container, another "
    "user), or the rule switched off (--disable)?"
)


def cure_lines(cure: Cure, command: str) -> Iterator[str]:
    """Yield the rules as TOML, and all else as comments. ``command``: what applies them."""
    if not cure.found:
        yield f"# Nothing to propose: no field of request {cure.number} is without a rule."
    for one in cure.found:
        yield from _found(one)
    if not cure.edits:
        yield "# The upstream is no local server, so rules edit nothing (--edit-remote)."
    elif command and can_apply(cure):
        yield f"# Switch it on, without a restart: {command}"


def can_apply(cure: Cure) -> bool:
    """Whether there is a rule to be written, or to be switched on."""
    return any(one.toml or (one.rules and not one.on) for one in cure.found)


def _found(one: Found) -> Iterator[str]:
    name = f"{field_name(one)} ({one.kind})"
    if one.toml:
        yield f"# {name}:{f' {_won(one.won)}' if one.won else ' proven on this turn.'}"
        yield from one.toml.rstrip().split("\n")
    elif one.on:
        yield f"# {name}: rule {one.on[0]} is on and makes it constant from now on."
    elif one.rules:
        yield f"# {name}: rule {one.rules[0]} is there, but off."
    else:
        yield f"# No rule for {name}: {one.why}."


def _won(won: Won) -> str:
    shares = [f"{min(1.0, tokens / max(1, won.prompt)):.1%}" for tokens in (won.shared, won.kept)]
    saved = max(0, won.kept - won.shared)
    return (
        f"{shares[0]} of the prompt was as before, {shares[1]} with this rule: "
        f"≈{saved:,} tokens not read again."
    )


def apply(cure: Cure, proxy: str, token: Mapping[str, str], config: str | None) -> str:
    """Write the rules of ``cure`` into the file that the proxy reads, and have it read that.

    Those that are there, but off, are switched on in it.

    Return what was done, in a line. ``config``: another file. Raises CommandError; then the file
    is as it was.
    """
    off = list(dict.fromkeys(one.rules[0] for one in cure.found if one.rules and not one.on))
    names = [one.name for one in cure.found if one.toml] + off
    if not cure.edits:
        raise CommandError("nothing written: rules edit nothing at this upstream (--edit-remote)")
    if config is None and not is_loopback(proxy):
        raise CommandError(
            f"nothing written: {proxy} is another machine: put this into {cure.file} there, and "
            "have it read by SIGHUP"
        )
    tables = [one.toml for one in cure.found if one.toml]
    done = append(tables, config or cure.file, off)
    what = "Made" if done.before is None else "Written to"
    if config is not None and done.file != Path(cure.file).resolve():
        return (
            f"{what} {done.file}. The running proxy reads {cure.file}: start it with "
            f"--config {done.file}"
        )
    try:
        answer = get_json(proxy, _RELOAD, token, post=True)
        on = answer.get("rules") if isinstance(answer, dict) else None
        why = None if isinstance(on, list) and set(names).issubset(on) else _UNREAD
    except RunningError as error:
        why = str(error)
    if why is not None:
        done.undo()
        raise CommandError(f"{done.file} is left as it was: {why}")
    made = " (a new file, which the proxy also reads when it starts)" if done.before is None else ""
    return f"{what} {done.file}{made}. In use now, without a restart: {', '.join(names)}."
