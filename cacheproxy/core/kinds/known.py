"""All kinds of servers: those that are built in, and those of plugins.

One table for the process, as codecs have one: what a page or a capture says of a server is its
kind's name, and whoever reads it has the same kinds. Plugins are put in force as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from cacheproxy.core.kinds.kind import RenderingPage, ServerKind
from cacheproxy.core.kinds.llama_cpp import LLAMA_CPP
from cacheproxy.core.kinds.lm_studio import LM_STUDIO
from cacheproxy.core.kinds.mlx_lm import MLX_LM
from cacheproxy.core.kinds.ollama import OLLAMA
from cacheproxy.core.kinds.profile import UNKNOWN_KIND, Profile
from cacheproxy.core.kinds.sglang import SGLANG
from cacheproxy.core.kinds.transformers_serve import TRANSFORMERS
from cacheproxy.core.kinds.unknown import TABBY, UNKNOWN_SERVER
from cacheproxy.core.kinds.vllm import VLLM

BUILT_IN = (LLAMA_CPP, OLLAMA, VLLM, SGLANG, LM_STUDIO, TABBY, MLX_LM, TRANSFORMERS)
"""In the order in which they are tried."""
EXAMPLE = LLAMA_CPP
"""Whose settings are named where nobody knows the kind: most people's."""


class _InForce:
    """What is known now. It is replaced, never changed: any thread may read it."""

    kinds: tuple[ServerKind, ...] = BUILT_IN


def put_in_force(of_plugins: Iterable[ServerKind]) -> None:
    """Have these recognised from now on, before those that are built in."""
    _InForce.kinds = (*of_plugins, *BUILT_IN)


def leave_out(name: str) -> None:
    """Have none of that name recognised any more, until others are put in force."""
    _InForce.kinds = tuple(kind for kind in _InForce.kinds if kind.name != name)


def all_kinds() -> tuple[ServerKind, ...]:
    """Return those of plugins, then those that are built in; UNKNOWN_SERVER is not among them."""
    return _InForce.kinds


def kind_of(profile: Profile) -> ServerKind:
    """Return the kind of the server that ``profile`` is of."""
    return kind_called(profile.server.kind if profile.server is not None else UNKNOWN_KIND)


def kind_called(name: str) -> ServerKind:
    """Return the kind that a server's ``ServerFacts.kind`` names, however it is spelt."""
    if name in ("", UNKNOWN_KIND):
        return UNKNOWN_SERVER
    return _called(name, _InForce.kinds)


@lru_cache(maxsize=64)
def _called(name: str, kinds: tuple[ServerKind, ...]) -> ServerKind:
    plain = _plain(name)
    same = (one for one in kinds if plain.startswith(_plain(one.name)))
    return next(same, None) or ServerKind(name)


def name_of(software: str) -> str:
    """Return the name of the kind whose header Server begins so, "" where that does not tell."""
    kinds = (kind for kind in all_kinds() if kind.recognition.software)
    return next((kind.name for kind in kinds if software.startswith(kind.recognition.software)), "")


def page_at(path: str) -> RenderingPage | None:
    """Return the page where servers render conversations that has this ``path``."""
    return _pages(_InForce.kinds).get(path)


@lru_cache(maxsize=1)
def _pages(kinds: tuple[ServerKind, ...]) -> dict[str, RenderingPage]:
    pages = [kind.serving.rendering for kind in kinds]
    return {page.path: page for page in reversed(pages) if page is not None}


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))
