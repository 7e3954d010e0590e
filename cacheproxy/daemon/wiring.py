"""The parts that tap puts together: those that last, and those that a configuration makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cacheproxy.config import Config
from cacheproxy.core.collector import Collector
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.document.memo import Memo
from cacheproxy.core.privacy.access import Access
from cacheproxy.core.rules.normalizer import Normalizer
from cacheproxy.daemon.records import Records
from cacheproxy.daemon.shown import Pages
from cacheproxy.plugin.packages import Packages
from cacheproxy.plugin.plugins import Plugins
from cacheproxy.proxy.downstream.limits import Limits
from cacheproxy.proxy.downstream.site import ProxySite
from cacheproxy.proxy.exchange.servers import Servers
from cacheproxy.proxy.resource import ProxyResource


@dataclass(frozen=True, slots=True)
class ProcessParts:
    """What lives as long as the process, whatever its configuration becomes.

    ``via``: our own token in the Via header. ``probe``: the secret by which probes are told.
    """

    reactor: Any
    site: ProxySite
    plugins: Plugins
    records: Records
    shown: Pages
    store: Store
    memo: Memo
    collector: Collector
    via: bytes
    probe: bytes


@dataclass(frozen=True, slots=True)
class ConfigParts:
    """What one configuration makes. An exchange keeps to the one it began with.

    ``servers``: all that deals with the upstreams. ``packages``: the plugins. ``rules``: those that
    are on; ``edits``: whether they are used with any upstream.
    """

    config: Config
    servers: Servers
    packages: Packages
    rules: Sequence[Normalizer]
    edits: bool
    resource: ProxyResource
    limits: Limits
    access: Access
