"""The running proxy, as commands on this machine see it: its URL and its own pages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from cacheproxy.client_setup.need import Need, late, model_and_context
from cacheproxy.config import Config, ConfigError
from cacheproxy.core.http1.headers import PROBE
from cacheproxy.core.kinds.looking import is_served
from cacheproxy.core.privacy.access import TOKEN_HEADER
from cacheproxy.http_client import (
    PAGE_SECONDS,
    CommandError,
    NoAnswerError,
    Site,
    checked_url,
    is_health,
    refused,
)

_SECONDS = 40.0
"""Time limit for one of the proxy's pages: proving a rule on a long conversation takes longest."""
_TCP = re.compile(r"tcp6?:(?:port=)?(\d+)(?:.*?interface=([^:]+))?")
_ANYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 (compared, not bound)


def proxy_url(config: Config) -> str:
    """Return the proxy's URL; raises ConfigError if the configuration does not name a TCP port."""
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


@dataclass(frozen=True, slots=True)
class RunningProxy:
    """The rules and plugins of a running proxy, by its health page."""

    url: str = ""  #: the proxy's URL, "" if none answers
    rules: frozenset[str] = frozenset()  #: names of the active rules
    failures: Mapping[str, Any] = field(default_factory=dict)  #: failures of each rule, by name
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of its packages, by name; "" for a package that it could not load."""

    @classmethod
    def of(cls, url: str, page: Any) -> RunningProxy | None:
        """Return the proxy at ``url`` by its health ``page``, None if that is no health page."""
        if not is_health(page):
            return None
        failures = page.get("failures")
        return cls(
            url,
            frozenset(name for name in page.get("rules") or () if isinstance(name, str)),
            failures if isinstance(failures, dict) else {},
            {
                each["name"]: each["version"] if each.get("loaded", True) else ""
                for each in page.get("packages") or ()
            },
        )


def get_json(
    proxy: str, path: str, token: Mapping[str, str], *, post: bool = False, instead: str = ""
) -> Any:
    """Return the JSON value at ``path`` of the proxy at the URL ``proxy``; raises CommandError.

    ``token``: the header with its token, empty without one. ``post``: use POST, for an action.
    ``instead``: text, after a comma, for what else the user can do if no proxy answers.
    """
    try:
        proxy = checked_url(proxy)
        site = Site(proxy, {"Accept": "application/json", **token})
        answer = site.post(path, b"", _SECONDS) if post else site.get(path, _SECONDS)
    except CommandError:
        raise CommandError(
            f"--proxy takes a URL such as http://127.0.0.1:8081, not {proxy!r}"
        ) from None
    except NoAnswerError as error:
        raise CommandError(
            f"no cacheproxy answers at {proxy} ({error}): start it (cacheproxy serve){instead}"
        ) from None
    value = answer.json()
    if answer.status == 200 and value is not None:
        return value
    raise CommandError(refused(answer, proxy))


def need_of(url: str, settings: Config, api_key: str | None, page: Any, folder: str = "") -> Need:
    """Return what a client needs to know of the proxy at ``url``.

    ``page``: its health page, None if no proxy answers. ``folder``: as in ``Need``.
    """
    model, context = model_and_context(page)
    need = Need(url, settings.token, api_key or "", model, context, late(page), folder=folder)
    if need.late is None:
        return need
    return replace(need, serves=partial(_serves, need, page.get("probe", "")))


def _serves(need: Need, probe: str, path: str) -> bool | None:
    """Return whether the server serves POST at ``path``, by an empty request; None: unknown."""
    headers = {PROBE.decode(): probe}
    if need.api_key:
        headers["Authorization"] = f"Bearer {need.api_key}"
    if need.token:
        headers[TOKEN_HEADER.decode()] = need.token
    try:
        answer = Site(need.url, headers).post(path, b"{}", PAGE_SECONDS)
    except NoAnswerError:
        return None
    return is_served(answer.status, answer.body)
