"""``python -m cacheproxy.cli.healthy``: exit code 0 if the proxy answers, for containers."""

from __future__ import annotations

import os
import sys

from cacheproxy.cli.running import get_json, proxy_url
from cacheproxy.config import ConfigError
from cacheproxy.http_client import HEALTH, CommandError, is_health
from cacheproxy.sources import load


def main() -> int:
    """Return 0 if the health page answers, else 1; an error is printed on stderr."""
    try:
        settings = load({}, os.environ)
        page = get_json(proxy_url(settings), HEALTH, settings.token_header())
    except (ConfigError, CommandError) as error:
        print(f"cacheproxy: {error}", file=sys.stderr)
        return 1
    return 0 if is_health(page) else 1


if __name__ == "__main__":
    sys.exit(main())
