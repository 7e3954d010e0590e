"""POST /_cacheproxy/reload: the configuration is read again, as SIGHUP has it read.

What it changes stands in a file that whoever asks cannot write from here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from cacheproxy.proxy.downstream.request import ProxyRequest
from cacheproxy.web.pages import Answer, answer_later, not_allowed, said


class ReloadError(Exception):
    """The settings stay as they were; the message says why."""


def reload(
    ask: Callable[[], Awaitable[tuple[str, list[str]]]], request: ProxyRequest
) -> bytes | int:
    """Answer when it is done: what has changed, and which rules are on; 409 if it could not be.

    ``ask``: returns these two, or raises ReloadError.
    """
    if request.method != b"POST":
        return not_allowed(request, b"POST", "send POST to reload")

    async def page() -> Answer:
        try:
            line, rules = await ask()
        except ReloadError as error:
            return said(str(error), 409)
        return {"said": line, "rules": rules}

    return answer_later(request, page)
