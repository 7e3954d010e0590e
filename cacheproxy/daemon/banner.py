"""The banner: the lines that the proxy prints when it has started."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from cacheproxy.core.kinds.profile import ServerFacts
from cacheproxy.core.rules.built_in import NAMES
from cacheproxy.core.rules.code_rule import Normalizer
from cacheproxy.http_client import USUAL
from cacheproxy.plugin.package import INSTALL, Package
from cacheproxy.plugin.packages import Packages
from cacheproxy.proxy.probing.asker import SILENT
from cacheproxy.words import counted, short

_ANYWHERE = (("http://0.0.0.0:", "http://127.0.0.1:"), ("http://[::]:", "http://[::1]:"))


def first_line(version: str, address: str, upstream: str) -> str:
    """Return the banner's first line: version, our address, the upstream's URL."""
    return f"cacheproxy {version}   {address}  →  {upstream}"


def rest(
    address: str,
    server: ServerFacts | None,
    rules: Sequence[Normalizer],
    packages: Packages,
    *,
    edits: bool,
    open_to_others: bool,
    is_loop: bool = False,
    lifetime: str | None = None,
    words: Mapping[str, str] = MappingProxyType({}),
    trouble: str | None = None,
    name: str = "",
    others: Sequence[tuple[str, ServerFacts | None]] = (),
    warnings: Sequence[str] = (),
) -> Iterator[str]:
    """Yield the banner's other lines: the upstream, the rules, and how clients reach the proxy.

    ``lifetime``: the result of ``lifetime_line``, None where no totals are kept. ``words``: facts
    about the upstream and what the proxy does about them (see ``Server.words``). ``trouble``: the
    reason why there is no ``server``, if known. ``name``: the upstream's name. ``others``: name and
    facts of each further upstream. ``warnings``: objections to how the upstreams are combined.
    """
    yield ""
    if server is None:
        why = trouble or "it does not answer yet"
        then = "requests wait" if why == SILENT else "requests get 502"
        then = "the others get its requests" if others else then
        yield f"  upstream    {f'{name} ' if name else ''}OFFLINE: {why}; {then} until it answers"
    else:
        yield f"  upstream    {f'{name} ' if name else ''}ONLINE: {server.summary}"
    for heading, word in (("cache", "memory"), ("template", "placement"), ("thinking", "thinking")):
        if word in words:
            yield f"  {heading:<10}  {words[word]}"
    for other, known in others:
        state = "OFFLINE: it does not answer yet" if known is None else f"ONLINE: {known.summary}"
        yield f"  upstream    {other} {state}"
    yield f"  rules       {_rules(rules, packages, edits=edits)}"
    for package in packages:
        if package.error is not None:
            yield f"  plugin      {package.distribution} could not be loaded: {package.error}"
        elif package.warning is not None:
            yield f"  plugin      {package.warning}"
    if address.startswith("http"):  # a socket in the file system is for neither browser nor client
        here = _from_here(address)
        yield f"  dashboard   {here}/_cacheproxy/"
        starts = packages.clients.starts(here, proxy_option(here))
        for called, line in starts.items():
            yield f"  {called:<12}  {line}"
        if not starts:
            yield f"  clients     base URL {here} or {here}/v1"
    if open_to_others:
        yield (
            "  access      other machines can reach the proxy: clients send the token as their "
            "API key"
        )
    for warning in warnings:
        yield f"  warning     {warning}"
    if is_loop:
        yield "  warning     the upstream is this proxy itself, so every request gets 508:"
        yield "              set --upstream or --port"
    yield ""
    yield f"Ready. {lifetime}" if lifetime else "Ready."


def lifetime_line(totals: Mapping[str, Any]) -> str | None:
    """Return a sentence on what ``totals.windows.lifetime`` returns; None: there is nothing."""
    since, prompt, reused, requests = (
        totals[name] for name in ("since", "prompt", "reused", "requests")
    )
    if since is None or not prompt:
        return None
    # Some answers tell one and not the other: it may pass the whole a little.
    share = f"{min(1.0, reused / prompt):.1%} reused, " if reused or totals["evaluated"] else ""
    day = time.localtime(since)
    return (
        f"Lifetime: {short(prompt)} prompt tokens, {share}{counted(requests, 'request')} since "
        f"{day.tm_mday} {time.strftime('%B %Y', day)}."
    )


def proxy_option(address: str) -> str:
    """Return the option that commands on this machine need to find the proxy, "" for none."""
    address = _from_here(address)
    return "" if address == USUAL or not address.startswith("http") else f" --proxy {address}"


def _from_here(address: str) -> str:
    for anywhere, loopback in _ANYWHERE:
        if address.startswith(anywhere):
            return loopback + address.removeprefix(anywhere)
    return address


def _rules(rules: Sequence[Normalizer], packages: Sequence[Package], *, edits: bool) -> str:
    if not edits:
        return "none: the upstream is not local, so no edits (--edit-remote changes this)"
    names = [rule.name for rule in rules]
    on = ", ".join(names) or "none"
    if len(names) > 8:  # rules that the banner names one by one; more are counted
        whose = (each.name for each in packages if any(one.name in names for one in each.rules))
        return f"{len(names)} on, for {', '.join(whose)}; cacheproxy rules lists them"
    if not NAMES.issuperset(names):
        return on
    if packages:
        why, mends = "no rule of a client package is on", "cacheproxy plugins lists them"
    else:
        why, mends = "no client package is installed", INSTALL
    return f"{on}; {why}:\n              {mends}"
