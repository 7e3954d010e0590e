"""GET /_cacheproxy/conversations[/ID]: all of a window, and the turns of one. Figures and names.

An ID is ``client/session``, percent-encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

import msgspec

from cacheproxy.proxy.downstream.request import ProxyRequest
from cacheproxy.totals.conversations import SORTS, conversation, conversations
from cacheproxy.totals.store import TotalsStore
from cacheproxy.totals.totals import Source
from cacheproxy.web.dashboard import LONGEST_SEARCH, row_of, window_of
from cacheproxy.web.pages import Content, QueryError, answer, query_of

_UNKNOWN = "there is no such conversation; see /_cacheproxy/conversations"

Json = dict[str, Any]


class Conversations:
    """The pages; ``source``: who has what was recorded."""

    def __init__(self, source: Source) -> None:
        self._source = source

    async def list(self, query: Mapping[str, str]) -> Content:
        """Return a page of the list; see ``totals.conversations.conversations``."""
        window, sort = window_of(query), query.get("sort", "last")
        if sort not in SORTS:
            raise QueryError(f"sort is one of {', '.join(SORTS)}")
        search, before = query.get("search", "")[:LONGEST_SEARCH], query.get("before", "")
        now = self._source.now
        try:
            page: bytes = await self._source.ask(
                _spelled, conversations, window, now, search=search, sort=sort, before=before
            )
        except ValueError:
            raise QueryError("before must be the value of next on another page") from None
        return Content(b"application/json", page)

    def one(self, request: ProxyRequest, name: str) -> bytes | int:
        """Answer with the turns of the conversation called ``name``."""

        async def page() -> Content | None:
            before = row_of(query_of(request))
            found: bytes | None = await self._source.ask(
                _spelled, conversation, unquote(name), before
            )
            return None if found is None else Content(b"application/json", found)

        return answer(request, page, _UNKNOWN)


def _spelled(
    store: TotalsStore, question: Callable[..., Json | None], *arguments: Any, **more: Any
) -> Any:
    """Return the answer as JSON, or None: a long one takes 77 ms with ``json``, in the thread."""
    found = question(store, *arguments, **more)
    return None if found is None else msgspec.json.encode(found)
