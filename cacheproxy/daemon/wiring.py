"""The parts that tap puts together: those that last, and those that a configuration makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cacheproxy.config import Config
from cacheproxy.core.collector import Collector
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.document.memo import Memo
from cacheproxy.core.privacy.access import Access
from cacheproxy.daemon.records import Records
from cacheproxy.daemon.shown import Pages
from cacheproxy.observe.judging import Judging
from cacheproxy.plugin.packages import Configured
from cacheproxy.plugin.plugins import Plugins
from cacheproxy.proxy.downstream.limits import Limits
from cacheproxy.proxy.downstream.site import ProxySite
from cacheproxy.proxy.exchange.servers import Servers
from cacheproxy.proxy.resource import ProxyResource


@dataclass(frozen=True, slots=True)
class ProcessParts:
    """What lives as long as the process, whatever its configuration becomes."""

    reactor: Any  #: Twisted's
    site: ProxySite  #: that clients connect to
    plugins: Plugins  #: ours and others'
    records: Records  #: of finished exchanges
    shown: Pages  #: what our own pages show
    store: Store  #: of conversations
    memo: Memo  #: what bodies were read as
    collector: Collector  #: of garbage
    via: bytes  #: our own token in the Via header


@dataclass(frozen=True, slots=True)
class ConfigParts:
    """What one configuration makes. An exchange keeps to the one it began with."""

    config: Config  #: the settings
    servers: Servers  #: all that deals with the upstreams
    found: Configured  #: the plugins, and the rules
    edits: bool  #: whether they are used with any upstream
    resource: ProxyResource  #: answers requests
    limits: Limits  #: of clients
    access: Access  #: who may ask


def share_out(mib: int, store: Store, memo: Memo, judging: Judging) -> None:
    """Give each its share of ``mib``; together they take no more.

    Half for conversations: one that is forgotten begins anew, without pins and verdict. Three
    eighths for parsed messages: a forgotten one is read again. One eighth for bodies that wait for
    their verdict. Of what is remembered already, the next turns let go.
    """
    eighth = (mib << 20) // 8
    store.most_bytes, memo.most_bytes, judging.most_waiting = 4 * eighth, 3 * eighth, eighth
