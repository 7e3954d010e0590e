"""Plugins for tests: what an installer leaves of them, and what is loaded then."""

from __future__ import annotations

import sys
from functools import cache

from cacheproxy import hookimpl, quick
from cacheproxy.core.prompt.request import Request
from cacheproxy.plugin.loading import entry_points
from cacheproxy.plugin.packages import Packages
from cacheproxy.plugin.plugins import Plugins
from tests.turning import TurningReactor

HEAD = "from cacheproxy import Client, CodeRule, Edit, Rule, hookimpl\n"


CLIENT = """
@hookimpl
def cacheproxy_client():
    return Client("*")
"""


EDITING = ("rules", "normalize", "session")


NONE = Packages()


RULE = """
@hookimpl
def cacheproxy_rules():
    return [Rule("{0}", "/a", "x", "{0}", "why")]
"""


SESSION = """
@hookimpl
def cacheproxy_session(request):
    return "{0}/1"
"""


NORMALIZE = '''
"""What the hook does.

More of it.
"""
from cacheproxy import hookimpl, Edit
@hookimpl
def cacheproxy_normalize({arguments}):
    yield Edit("/a", "{new}", "why")
'''


def distribution(folder, name, module, entry, *, version="1.0"):
    """Put what an installer would leave of a distribution into ``folder``; return that folder."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[cacheproxy]\n{entry} = {module}\n")
    return info


def loaded(block: tuple[str, ...] = (), earlier: Packages | None = None) -> Packages:
    """The packages of a test, without those that happen to be installed here.

    ``earlier``: what is in force, where they are loaded once more.
    """
    theirs = others()
    load = Packages().load if earlier is None else earlier.load
    found = load((*block, *theirs))
    return Packages(package for package in found if package.name not in theirs)


@cache
def others() -> list[str]:
    """The names of the packages that happen to be installed here."""
    return [
        entry.name
        for entry in entry_points("cacheproxy")
        if not entry.value.startswith("plugin_of_")
    ]


def running(packages: Packages = NONE) -> Plugins:
    """A proxy's plugins, with ``packages`` in force."""
    plugins = Plugins(TurningReactor())
    plugins.adopt(packages)
    return plugins


def stop(plugins: Plugins) -> None:
    """Let the packages' observers see what waits."""
    found: list[object] = []
    plugins.finish().addBoth(found.append)
    plugins.reactor.turn_until(lambda: found)
    assert found == [None]


def imported(name: str) -> bool:
    return "plugin_of_" + name in sys.modules


def request_of(body: bytes = b'{"a": "x"}') -> Request:
    return Request("POST", "/v1/messages", body=body)


class Watcher:
    """An observer of our own. ``seen``: all exchanges; ``error``: raised after each batch."""

    def __init__(self, error: Exception | None = None) -> None:
        self.seen: list[object] = []
        self.error = error

    @hookimpl
    @quick
    def cacheproxy_exchange_finished(self, exchanges):
        self.seen += exchanges
        if self.error is not None:
            raise self.error
