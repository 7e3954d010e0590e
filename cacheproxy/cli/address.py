"""Where the configured proxy listens, as its clients on this machine write it."""

from __future__ import annotations

import re

from cacheproxy.config import Config, ConfigError

_TCP = re.compile(r"tcp6?:(?:port=)?(\d+)(?:.*?interface=([^:]+))?")
_ANYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 (compared, not bound)


def proxy_url(config: Config) -> str:
    """Return the proxy's URL. Raises ConfigError if the configuration does not tell it."""
    port, interface = str(config.port), config.interface
    if config.listen:
        endpoint = _TCP.match(config.listen)
        port, interface = (endpoint[1], endpoint[2] or "") if endpoint else ("0", "")
    if port == "0":
        raise ConfigError(
            "the configuration does not name the proxy's port: give its URL with --proxy"
        )
    host = "127.0.0.1" if interface in _ANYWHERE else interface
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
