"""Which client packages and rules there are."""

from __future__ import annotations

from collections.abc import Sequence

from cacheproxy.client_setup.finding import Finding, fail, ok, warn
from cacheproxy.core.rules.built_in import NAMES
from cacheproxy.plugin.package import INSTALL
from cacheproxy.plugin.packages import Configured

_MOST = 4
"""Packages, and rules, that are named one by one."""


def check(found: Configured, running: tuple[str, ...] | None, *, edits: bool) -> list[Finding]:
    """Return the findings. ``running``: the rules of the running proxy, None if there is none.

    ``edits``: whether the upstream is one whose requests are edited (law 5).
    """
    broken = [package for package in found.packages if package.error is not None]
    findings = [
        fail(
            "plugins",
            f"{package.distribution} could not be loaded: {package.error}",
            f"pip install --upgrade {package.distribution}",
        )
        for package in broken
    ]
    findings += [
        warn("plugins", package.warning, f"chmod o-w {package.file}")
        for package in found.packages
        if package.warning is not None
    ]
    loaded = [package for package in found.packages if not package.error and not package.blocked]
    names = _some([package.title for package in loaded])
    if not NAMES.issuperset(rule.name for rule in found.on):
        which = f"{len(loaded)} loaded: {names}" if loaded else "only the config file's own rules"
        on = [rule.name for rule in found.on]
        listed = "; cacheproxy plugins lists them" if len(on) > _MOST else ""
        text = f"{which}; {len(on)} rule{'s' * (len(on) != 1)} on: {_some(on)}{listed}"
        findings.append(ok("plugins", text))
    elif loaded:
        text = f"{names} loaded, but none of their rules is on"
        findings.append(warn("plugins", text, "cacheproxy plugins"))
    elif not broken:
        text = "no client package is installed, so the proxy makes no volatile field constant"
        findings.append(warn("plugins", text, INSTALL))
    return findings + _running(found, running, edits=edits)


def _some(names: Sequence[str]) -> str:
    """Return the first few of ``names``."""
    return ", ".join(names[:_MOST]) + ", …" * (len(names) > _MOST)


def _running(found: Configured, running: tuple[str, ...] | None, *, edits: bool) -> list[Finding]:
    """Compare with the proxy that runs, which may have been started before the last change."""
    here = {rule.name for rule in found.on}
    if running is None or set(running) == here:
        return []
    if not running and not edits:
        text = "the upstream is not on your own network, so the running proxy edits nothing"
        return [warn("rules", text, "start the proxy with --edit-remote")]
    missing, more = sorted(here - set(running)), sorted(set(running) - here)
    parts = [f"lacks {', '.join(missing)}"] if missing else []
    parts += [f"also has {', '.join(more)}"] if more else []
    lacks = " and ".join(parts)
    text = f"the running proxy {lacks}: it was started before that, or with other settings"
    fix = (
        "reload the proxy (SIGHUP) or restart it, or run doctor with the proxy's own --config and "
        "--plugin"
    )
    return [warn("rules", text, fix)]
