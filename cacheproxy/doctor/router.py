"""Which router stands before several servers, and what mends it."""

from __future__ import annotations

from cacheproxy.asking import Answer, NoAnswerError, Site
from cacheproxy.core.servers import routers


def cure_of(site: Site) -> str:
    """Return what makes the router at ``site`` keep a conversation at one server. Never raises."""
    try:
        models = site.get("/v1/models")
    except NoAnswerError:
        models = Answer(0, b"")
    return routers.cure_of(models.software, models.body.decode("latin-1"), site.tell)
