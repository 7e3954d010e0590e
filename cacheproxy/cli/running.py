"""Ask a running proxy for one of its own pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cacheproxy.asking import CommandError, NoAnswerError, Site, checked_url

_SECONDS = 40.0
"""A page about a long conversation takes the proxy a while, and proving a rule on it longer."""
_NO_PAGE = "no such page"


class RunningError(CommandError):
    """The proxy gives no good answer."""


def get_json(proxy: str, path: str, token: Mapping[str, str], *, post: bool = False) -> Any:
    """Return the JSON value at ``path`` of the proxy at the URL ``proxy``; raises RunningError.

    ``token``: the header that holds its token, if it has one. ``post``: to have something done.
    """
    try:
        proxy = checked_url(proxy)
        site = Site(proxy, {"Accept": "application/json", **token})
        answer = site.post(path, b"", _SECONDS) if post else site.get(path, _SECONDS)
    except CommandError:
        raise RunningError(
            f"--proxy takes a URL such as http://127.0.0.1:8081, not {proxy!r}"
        ) from None
    except NoAnswerError as error:
        raise RunningError(
            f"no cacheproxy answers at {proxy} ({error}): start it (twistd -n cacheproxy), "
            "or look in a capture with --from FILE"
        ) from None
    value = answer.json()
    if answer.status == 200 and value is not None:
        return value
    if answer.status == 401:
        raise RunningError(f"{proxy} asks for its token: set CACHEPROXY_TOKEN to it")
    said = value.get("error") if isinstance(value, dict) else None
    if isinstance(said, str) and answer.status in (404, 409, 503) and _NO_PAGE not in said:
        raise RunningError(said)
    raise RunningError(
        f"what answers at {proxy} is no cacheproxy of this version (HTTP {answer.status})"
    )
