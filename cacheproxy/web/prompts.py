"""Whether pages show what prompts say: where the settings or a user say so, to those who may."""

from __future__ import annotations

import json

from cacheproxy.core.privacy.access import Access
from cacheproxy.proxy.downstream.request import ProxyRequest
from cacheproxy.web.pages import Answer, Json, Page, PageError, answer, only

_LONGEST = 1000
"""Bytes that are read of what is said: 10 MB of JSON take a third of a second."""
_NOT_YOU = (
    "Prompts are shown, and rules applied, on this machine or with the token only: open the page "
    "there, or set CACHEPROXY_TOKEN."
)
_POST = "this is asked for by POST"


class Prompts:
    """What the settings say, until a user says otherwise: that holds until the process ends.

    ``configured`` and ``access`` are set anew when the configuration is.
    """

    def __init__(self) -> None:
        self.configured = False
        self.access = Access()
        self._asked: bool | None = None

    @property
    def on(self) -> bool:
        """Whether they are shown."""
        return self.configured if self._asked is None else self._asked

    def why_not(self, request: ProxyRequest) -> str | None:
        """Return why who asks may not see them, nor change the settings; None if they may."""
        trusted = self.access.is_trusted(request.header_values, request.peer)
        return None if trusted else _NOT_YOU

    def as_json(self, request: ProxyRequest) -> Json:
        """Return what is so for who asks."""
        why = self.why_not(request)
        return {"on": self.on, "allowed": why is None, "why_not": why}

    def page(self, request: ProxyRequest) -> bytes | int:
        """Answer POST ``{"show": true}``: show them from now on, or no more."""

        async def show() -> Answer:
            self._asked = wanted
            return {"show": self.on}

        try:
            said = json.loads(request.body[:_LONGEST])
        except (ValueError, RecursionError):
            said = None
        wanted = said.get("show") if isinstance(said, dict) else None
        if request.method == b"POST" and not isinstance(wanted, bool):
            raise PageError('say {"show": true}, or false')
        return self.change(request, show)

    def change(self, request: ProxyRequest, page: Page) -> bytes | int:
        """Answer a POST of JSON by somebody who may change settings with what ``page`` returns.

        No form of another site can be of that type (https://fetch.spec.whatwg.org/, CORS-safelisted
        request headers), and whose Origin is another's does not come this far.
        """
        only(request, b"POST", _POST)
        kinds = request.header_values(b"content-type")
        if [kind.partition(b";")[0].strip().lower() for kind in kinds] != [b"application/json"]:
            raise PageError("send it with Content-Type: application/json", 415)
        self.check(request)
        return answer(request, page, post=_POST)

    def check(self, request: ProxyRequest) -> None:
        """Raise PageError for somebody who may neither see prompts nor change settings."""
        why = self.why_not(request)
        if why is not None:
            raise PageError(why, 403)
