"""What ``cacheproxy doctor`` asks a client's package about (cacheproxy_checkup), and the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cacheproxy.asking import is_same, shown
from cacheproxy.client_setup.finding import Finding


@dataclass(frozen=True, slots=True)
class Case:
    """What is known where the client is used: its settings are for the package to read."""

    environ: Mapping[str, str]  #: of this shell
    home: Path  #: the user's folder
    proxy: str  #: its URL
    upstream: str  #: the model server's
    context: int | None = None  #: tokens that the server holds; None: not known
    seen: bool = False  #: whether requests of the client came through the proxy lately

    @staticmethod
    def shown(url: str) -> str:
        """Return ``url`` for people, without what may be secret in it; raises ValueError."""
        return shown(url)

    def is_proxy(self, url: str) -> bool:
        """Whether ``url`` leads to the proxy; loopback names are alike."""
        return is_same(url, self.proxy)

    def is_upstream(self, url: str) -> bool:
        """Whether ``url`` leads to the model server, past the proxy."""
        return is_same(url, self.upstream)


@dataclass(frozen=True, slots=True)
class Volatile:
    """What a client writes at the head of its prompts and changes: the test prompt begins so."""

    what: str  #: as lines name it: ``billing header``
    rules: tuple[str, ...]  #: the package's that make it constant, the first as a rule
    texts: tuple[str, str, str]  #: as three conversations have it


@dataclass(frozen=True, slots=True)
class Checkup:
    """What a package says of its client in this ``Case``."""

    findings: tuple[Finding, ...] = ()
    """Lines of the report. One that says where the client sends its requests has the client's
    name; if it is a FAIL, they go past the proxy."""
    volatile: Volatile | None = None  #: for the test prompt; None: its head is constant
