"""All dialects, and the choice of one by a request's path."""

from __future__ import annotations

from functools import lru_cache

from cacheproxy.core.dialects.chat import CHAT
from cacheproxy.core.dialects.completion import COMPLETION
from cacheproxy.core.dialects.dialect import Dialect, Endpoint, Purpose
from cacheproxy.core.dialects.google import GOOGLE
from cacheproxy.core.dialects.messages import MESSAGES
from cacheproxy.core.dialects.ollama import OLLAMA
from cacheproxy.core.dialects.responses import RESPONSES

DIALECTS = (MESSAGES, CHAT, RESPONSES, COMPLETION, OLLAMA, GOOGLE)
"""All APIs: a new one is a module, and its value here."""
LISTS = frozenset(each.items for each in DIALECTS if each.items)
"""Members with the messages, of all dialects."""
USAGES = tuple(
    sorted((one for each in DIALECTS for one in each.usage), key=lambda usage: usage.is_rest)
)
"""Spellings of usage in all dialects, since servers mix them. The first whose signs are there
holds; those that do not count the whole prompt come last, as they are known by lacking the rest."""
RENDERED = next(each for each in DIALECTS if each.is_rendered)
VERSION_HEADERS = frozenset(each.version_header for each in DIALECTS if each.version_header)
UNKNOWN = Dialect(name="")
"""The dialect of an API that is not known."""
_NOWHERE = Endpoint("")


@lru_cache(maxsize=64)
def _found(path: str) -> tuple[Dialect, Endpoint]:
    path = path.rstrip("/")
    ends = [(each, one) for each in DIALECTS for one in each.endpoints if path.endswith(one.end)]
    return max(ends, key=lambda found: len(found[1].end), default=(UNKNOWN, _NOWHERE))


@lru_cache(maxsize=64)
def endpoint_of(path: str) -> Endpoint:
    """Return the endpoint that ``path`` ends with, of whichever API; an empty one if none."""
    return _found(path)[1]


@lru_cache(maxsize=64)
def dialect_of(path: str) -> Dialect | None:
    """Return the dialect of requests for ``path``, None if no known one has a prompt there.

    The path alone decides.
    """
    dialect, endpoint = _found(path)
    has_prompt = dialect.is_proxied and endpoint.purpose is not Purpose.EMBEDDINGS
    return dialect if has_prompt and dialect is not UNKNOWN else None


def captured_dialect(path: str) -> Dialect | None:
    """Return the dialect of ``path`` as above, or one that other tools' captures alone have."""
    dialect = _found(path)[0]
    return dialect_of(path) if dialect.is_proxied else dialect


@lru_cache(maxsize=64)
def spoken(path: str) -> Dialect:
    """Return the dialect of an answer to a request for ``path``, UNKNOWN if there is none."""
    return dialect_of(path) or UNKNOWN


def beside(path: str, dialect: Dialect) -> str:
    """Return the path of requests in ``dialect`` at the server that has ``path``.

    The prefix before an endpoint is the same for all APIs of a server.
    """
    return path.rstrip("/").removesuffix(endpoint_of(path).end) + dialect.endpoints[0].end
