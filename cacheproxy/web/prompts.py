"""Whether pages show prompts, and who may see them or change settings."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, cast

from twisted.web.server import Request

from cacheproxy.core.privacy.access import Access
from cacheproxy.web.pages import Answer, Json, Page, PageError, answer, only, values

_LONGEST_SAID = 1000
"""Bytes of a POST's body that are read: 10 MB of JSON would take a third of a second."""
_NOT_YOU = (
    "Prompts are shown, and rules applied, on this machine or with the token only: open the page "
    "there, or set CACHEPROXY_TOKEN."
)
_POST = "this is asked for by POST"


class Prompts:
    """Whether pages show prompts: by the settings, until a user switches it for this process.

    A reload sets ``configured`` and ``access`` again.
    """

    def __init__(self) -> None:
        self.configured = False
        self.access = Access()
        self._chosen: bool | None = None

    @property
    def on(self) -> bool:
        """Whether prompts are shown."""
        return self.configured if self._chosen is None else self._chosen

    def why_not(self, request: Request) -> str | None:
        """Return why this client may neither see prompts nor change settings; None if it may."""
        peer = getattr(request.getClientAddress(), "host", "")
        trusted = self.access.is_trusted(partial(values, request), peer)
        return None if trusted else _NOT_YOU

    def as_json(self, request: Request) -> Json:
        """Return the state for this client, as JSON."""
        why = self.why_not(request)
        return {"on": self.on, "allowed": why is None, "why_not": why}

    def page(self, request: Request) -> bytes | int:
        """Answer POST ``{"show": true}``: show prompts from now on; false hides; PageError."""

        async def show() -> Answer:
            self._chosen = wanted
            return {"show": self.on}

        try:
            said = json.loads(cast("Any", request.content).read(_LONGEST_SAID))
        except (ValueError, RecursionError):
            said = None
        wanted = said.get("show") if isinstance(said, dict) else None
        if request.method == b"POST" and not isinstance(wanted, bool):
            raise PageError('say {"show": true}, or false')
        return self.change(request, show)

    def change(self, request: Request, page: Page) -> bytes | int:
        """Answer a POST of JSON with ``page``; raises PageError for another, or without permission.

        A form on another site cannot send that type (https://fetch.spec.whatwg.org/,
        CORS-safelisted request headers), and the channel refuses foreign Origins.
        """
        only(request, b"POST", _POST)
        kinds = values(request, b"content-type")
        if [kind.partition(b";")[0].strip().lower() for kind in kinds] != [b"application/json"]:
            raise PageError("send it with Content-Type: application/json", 415)
        self.check(request)
        return answer(request, page, post=_POST)

    def check(self, request: Request) -> None:
        """Raise PageError (403) for a client that may neither see prompts nor change settings."""
        if (why := self.why_not(request)) is not None:
            raise PageError(why, 403)
