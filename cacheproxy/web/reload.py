"""POST /_cacheproxy/reload: the configuration is read again, as SIGHUP has it read.

What it changes stands in a file that whoever asks cannot write from here.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from cacheproxy.web.pages import Answer, Content, answer_later, not_allowed

if TYPE_CHECKING:
    from cacheproxy.proxy.downstream.request import ProxyRequest

PATH = b"/_cacheproxy/reload"


class ReloadError(Exception):
    """The settings stay as they were; the message says why."""


def reload(
    ask: Callable[[], Awaitable[tuple[str, list[str]]]], request: ProxyRequest
) -> bytes | int:
    """Answer when it is done: what has changed, and which rules are on; 409 if it could not be.

    ``ask``: returns these two, or raises ReloadError.
    """
    if request.method != b"POST":
        return not_allowed(request, b"POST", "a reload is asked for by POST")

    async def page() -> Answer:
        try:
            said, rules = await ask()
        except ReloadError as error:
            body = json.dumps({"error": str(error)}).encode()
            return Content(b"application/json", body, 409)
        return {"said": said, "rules": rules}

    return answer_later(request, page)
