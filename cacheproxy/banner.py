"""What is printed when the proxy has started."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cacheproxy.core.rules import Normalizer
from cacheproxy.core.server import Server
from cacheproxy.plugins import Package


def first_line(version: str, address: str, upstream: str) -> str:
    """Who listens where, and where requests go."""
    return f"cacheproxy {version}   {address}  →  {upstream}"


def rest(
    address: str,
    server: Server | None,
    rules: Sequence[Normalizer],
    packages: Sequence[Package],
    *,
    edits: bool,
    open_to_others: bool,
    is_loop: bool = False,
) -> Iterator[str]:
    """Yield the lines below: the upstream, the rules, and how clients get here."""
    yield ""
    if server is None:
        yield "  upstream    does not answer yet; requests get 502 until it does"
    else:
        yield f"  upstream    {server.summary}"
    yield f"  rules       {_rules(rules, packages, edits=edits)}"
    for package in packages:
        if package.error is not None:
            yield f"  plugin      {package.distribution} could not be loaded: {package.error}"
    yield f"  health      {address}/_cacheproxy/health"
    yield f"  Claude Code   ANTHROPIC_BASE_URL={address} claude"
    yield f"  OpenAI API    base URL {address}/v1"
    if open_to_others:
        yield "  access      other machines can reach it: clients send the token as their API key"
    if is_loop:
        yield "  warning     the upstream is this proxy itself, so every request gets 508:"
        yield "              set --upstream or --port"
    yield ""
    yield "Ready."


def _rules(rules: Sequence[Normalizer], packages: Sequence[Package], *, edits: bool) -> str:
    if not edits:
        return "none: the upstream is not local, so nothing is edited (--edit-remote changes this)"
    if rules:
        return ", ".join(rule.name for rule in rules)
    if packages:
        return "none is on, so everything passes through unedited: cacheproxy plugins lists them"
    return (
        "none: no client package is installed, so everything passes through unedited;\n"
        "              pip install cacheproxy-claude-code (or cacheproxy-openclaw)"
    )
