"""Ask a running proxy for one of its own pages.

The standard library's ``http.client`` and not ``urllib``, which would send requests for the
loopback interface through a proxy named in the environment.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from cacheproxy.core.server.base_url import server_root

_SECONDS = 10.0
_LARGEST = 16 << 20


class RunningError(Exception):
    """No good answer; the message says in one line what is wrong and what mends it."""


def get_json(proxy: str, path: str, token: Mapping[str, str]) -> Any:
    """Return the JSON value at ``path`` of the proxy at the URL ``proxy``; raises RunningError.

    ``token``: the header that holds its token, if it has one.
    """
    proxy = server_root(proxy)
    try:
        parts = urlsplit(proxy)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host is None or parts.scheme not in ("http", "https"):
        raise RunningError(f"--proxy takes a URL such as http://127.0.0.1:8081, not {proxy!r}")
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(host, port, timeout=_SECONDS)
    try:
        connection.request("GET", path, headers={"Accept": "application/json", **token})
        response = connection.getresponse()
        status, body = response.status, response.read(_LARGEST)
    except (OSError, HTTPException) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise RunningError(
            f"no cacheproxy answers at {proxy} ({reason}): start it (twistd -n cacheproxy), "
            "or look in a capture with --from FILE"
        ) from None
    finally:
        connection.close()
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    if status == 200 and value is not None:
        return value
    if status == 401:
        raise RunningError(f"{proxy} asks for its token: set CACHEPROXY_TOKEN to it")
    said = value.get("error") if isinstance(value, dict) else None
    if isinstance(said, str) and status == 404:
        raise RunningError(said)
    raise RunningError(f"what answers at {proxy} is no cacheproxy of this version (HTTP {status})")
