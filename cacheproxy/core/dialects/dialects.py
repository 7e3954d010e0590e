"""All dialects, and which of them a path speaks."""

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
"""A new API is one module, and its value here."""
LISTS = frozenset(each.items for each in DIALECTS if each.items)
"""The members with the messages, in whichever dialect."""
USAGES = tuple(
    sorted((one for each in DIALECTS for one in each.usage), key=lambda usage: usage.is_rest)
)
"""In whichever dialect an answer has it: servers mix them. The first whose signs are there holds,
and what counts less than the whole prompt is known by having none of the others'."""
RENDERED = next(each for each in DIALECTS if each.is_rendered)
VERSION_HEADERS = frozenset(each.version_header for each in DIALECTS if each.version_header)
UNKNOWN = Dialect(name="")
"""What holds where nobody knows the API."""
_NOWHERE = Endpoint("")


@lru_cache(maxsize=64)
def _found(path: str) -> tuple[Dialect, Endpoint]:
    path = path.rstrip("/")
    ends = [(each, one) for each in DIALECTS for one in each.endpoints if path.endswith(one.end)]
    return max(ends, key=lambda found: len(found[1].end), default=(UNKNOWN, _NOWHERE))


@lru_cache(maxsize=64)
def endpoint_of(path: str) -> Endpoint:
    """Return what ``path`` is, whatever its API."""
    return _found(path)[1]


@lru_cache(maxsize=64)
def dialect_of(path: str) -> Dialect | None:
    """Return the dialect of requests for ``path``, None if none is known that has a prompt there.

    It is known from the path alone.
    """
    dialect, endpoint = _found(path)
    has_prompt = dialect.is_proxied and endpoint.purpose is not Purpose.EMBEDDINGS
    return dialect if has_prompt and dialect is not UNKNOWN else None


def captured_dialect(path: str) -> Dialect | None:
    """Return the same, and those that are not proxied, too: captures of other tools have them."""
    dialect = _found(path)[0]
    return dialect_of(path) if dialect.is_proxied else dialect


@lru_cache(maxsize=64)
def spoken(path: str) -> Dialect:
    """Return the dialect in which to answer a request for ``path``, or UNKNOWN."""
    return dialect_of(path) or UNKNOWN


def beside(path: str, dialect: Dialect) -> str:
    """Return where the server of ``path`` is asked for an answer in ``dialect``.

    Whatever stands before it (``/v1``) is the same for all of its APIs.
    """
    return path.rstrip("/").removesuffix(endpoint_of(path).end) + dialect.endpoints[0].end
