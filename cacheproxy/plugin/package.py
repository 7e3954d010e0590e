"""One plugin as the proxy knows it: a client package, or a file of the user's."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from cacheproxy.core.prompt.client import Client
from cacheproxy.core.rules.code_rule import settled
from cacheproxy.core.rules.fold import kind_of, one_line
from cacheproxy.core.rules.normalizer import Normalizer
from cacheproxy.plugin.errors import PluginError
from cacheproxy.plugin.hooks import Hooks

INSTALL = "pip install ./clients/* (in a checkout of cacheproxy)"
"""What to do where no client package is installed."""
TAKEN = frozenset({"capture", "live", "log-line", "metrics", "recent", "spans", "totals", "unkept"})
"""Names of our own observers, which no plugin may have."""
_MOST_ERROR = 300


@dataclass(frozen=True, slots=True)
class Package:
    """One plugin: where it came from and what it brought, or why it is not there.

    ``name``: that of its entry point, or its file's without ``.py``.
    ``distribution``, ``version``: where it is installed from; empty for a file.
    ``rules``: its table, and its hook cacheproxy_normalize as one more.
    ``error``: why it could not be loaded.
    ``client``: whose requests it is for, None if it edits none.
    ``file``, ``source``: the file it was read from, and what stood there.
    ``warning``: what is wrong with the file, though it was loaded.
    ``outdated``: by now another version of it is installed, or none: that needs a restart.
    """

    name: str
    distribution: str
    version: str
    rules: tuple[Normalizer, ...] = ()
    blocked: bool = False
    error: str | None = None
    client: Client | None = None
    hooks: Hooks | None = field(default=None, repr=False)
    file: Path | None = None
    source: bytes = field(default=b"", repr=False)
    warning: str | None = None
    outdated: bool = False

    @property
    def is_tool(self) -> bool:
        """Whether commands are all that it brings."""
        return self.hooks is not None and set(self.hooks.names) == {"cacheproxy_commands"}

    @property
    def title(self) -> str:
        """What it is called in lists: ``cacheproxy-example 0.1``, ``rules (/home/me/rules.py)``."""
        if self.file is not None:
            return f"{self.name} ({self.file})"
        return f"{self.distribution} {self.version}"


def package_of(
    plugin: object,
    name: str,
    distribution: str = "",
    version: str = "",
    *,
    rule_name: str | None = None,
) -> Package:
    """Return the package that ``plugin`` makes, a module or an object with hooks.

    ``rule_name``: what its hook cacheproxy_normalize is called as a rule; None: ``name``. Raises
    PluginError, RuleError, and what its hooks cacheproxy_client and cacheproxy_rules raise.
    """
    hooks = Hooks(plugin, name)
    client = hooks.client()
    rules = (
        *(settled(rule, client) for rule in hooks.rules()),
        *hooks.normalizer(rule_name or name, client),
    )
    # An accident here is silent: another client's user loses what they typed.
    if client is None and (
        hooks.session or hooks.setup or any(rule.client is None for rule in rules)
    ):
        raise PluginError(
            'the package does not name its client: implement cacheproxy_client (Client("*") '
            "means every client)"
        )
    return Package(name, distribution, version, rules, client=client, hooks=hooks)


def reason_of(error: BaseException) -> str:
    """Return one line of why: what a plugin's own exception says may be anything."""
    try:
        lines = str(error).splitlines()
    except BaseException:
        lines = []
    return one_line(f"{kind_of(error)}: {lines[0] if lines else ''}", _MOST_ERROR)
