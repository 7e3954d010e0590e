"""``twistd cacheproxy``: the plugin is pure data, so that finding it imports nothing."""

from twisted.application.service import ServiceMaker

cacheproxy = ServiceMaker(
    "cacheproxy",
    "cacheproxy.tap",
    "A reverse proxy that keeps a model server's prompt cache alive for coding agents.",
    "cacheproxy",
)
