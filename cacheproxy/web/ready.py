"""GET /_cacheproxy/ready: whether a load balancer should send requests here.

A proxy that is stopping refuses new requests of every kind, so this one as well.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

from cacheproxy.core.privacy.access import Access
from cacheproxy.proxy.downstream.request import ProxyRequest
from cacheproxy.web.pages import Answer, Content, Page, answer


async def ready(is_up: Callable[[], Awaitable[bool]]) -> Answer:
    """Return the page: 200 or, while no upstream answers, 503. It tells nothing else."""
    is_ready = await is_up()
    body = json.dumps({"ready": is_ready}).encode() + b"\n"
    return Content(b"application/json", body, 200 if is_ready else 503)


def named_or(access: Access, page: Page, other: Page, request: ProxyRequest) -> bytes | int:
    """Answer with ``page``; to who calls us by a name that is not ours, with ``other``."""
    is_named = access.is_named(request.header_values, request.address)
    return answer(request, page if is_named else other)
