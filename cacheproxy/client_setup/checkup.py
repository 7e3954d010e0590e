"""The hook ``cacheproxy_checkup``: what ``cacheproxy doctor`` asks a client's package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cacheproxy.client_setup.finding import Finding
from cacheproxy.http_client import is_same, shown


@dataclass(frozen=True, slots=True)
class Case:
    """The place where the client is used; its own settings are for the package to read."""

    environ: Mapping[str, str]  #: environment of this shell
    home: Path  #: the user's home folder
    proxy: str  #: the proxy's URL
    upstream: str  #: the model server's URL
    context: int | None = None  #: tokens of the server's context window, None if not known
    seen: bool = False  #: whether the client has lately sent requests through the proxy

    @staticmethod
    def shown(url: str) -> str:
        """Return ``url`` for people, without possible secrets; raises ValueError."""
        return shown(url)

    def is_proxy(self, url: str) -> bool:
        """Whether ``url`` leads to the proxy; all loopback names count as one."""
        return is_same(url, self.proxy)

    def is_upstream(self, url: str) -> bool:
        """Whether ``url`` leads to the model server, past the proxy."""
        return is_same(url, self.upstream)


@dataclass(frozen=True, slots=True)
class Volatile:
    """A changing text at the head of a client's prompts; the test prompt begins with it."""

    what: str  #: name in the report: ``billing header``
    rules: tuple[str, ...]  #: names of the package's rules that make it constant, main one first
    texts: tuple[str, str, str]  #: three examples, from three conversations


@dataclass(frozen=True, slots=True)
class Checkup:
    """A package's answer: the state of its client in a ``Case``."""

    findings: tuple[Finding, ...] = ()
    """Lines of the report. The line on where the client sends its requests is named after the
    client; if it is a FAIL, requests go past the proxy."""
    volatile: Volatile | None = None  #: head of the test prompt, None if the client's is constant
