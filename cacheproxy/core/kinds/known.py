"""The table of all kinds of servers: the built-in ones and those of plugins.

The process has one table, as it has one of codecs: pages and captures name a kind, and whoever
reads the name finds the kind here. The kinds of plugins are replaced all at once.
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
"""The built-in kinds, in the order in which they are tried."""
EXAMPLE = LLAMA_CPP
"""The kind whose settings are named if the server's kind is unknown: the most common one."""


class _InForce:
    """The kinds in force. The tuple is replaced, never changed: any thread may read it."""

    kinds: tuple[ServerKind, ...] = BUILT_IN


def put_in_force(of_plugins: Iterable[ServerKind]) -> None:
    """Replace the kinds of plugins, which are tried before the built-in ones."""
    _InForce.kinds = (*of_plugins, *BUILT_IN)


def leave_out(name: str) -> None:
    """Remove the kind of that name, until ``put_in_force`` is called again."""
    _InForce.kinds = tuple(kind for kind in _InForce.kinds if kind.name != name)


def all_kinds() -> tuple[ServerKind, ...]:
    """Return the kinds of plugins, then the built-in ones; UNKNOWN_SERVER is not among them."""
    return _InForce.kinds


def kind_of(profile: Profile) -> ServerKind:
    """Return the kind of the server that ``profile`` describes."""
    return kind_called(profile.server.kind if profile.server is not None else UNKNOWN_KIND)


def kind_called(name: str) -> ServerKind:
    """Return the kind with whose name ``name`` begins, a bare one if there is none.

    Only letters and digits are compared, without case.
    """
    if name in ("", UNKNOWN_KIND):
        return UNKNOWN_SERVER
    return _called(name, _InForce.kinds)


@lru_cache(maxsize=64)
def _called(name: str, kinds: tuple[ServerKind, ...]) -> ServerKind:
    plain = _plain(name)
    same = (one for one in kinds if plain.startswith(_plain(one.name)))
    return next(same, None) or ServerKind(name)


def name_of(software: str) -> str:
    """Return the name of the kind that the header Server shows, "" if it shows none."""
    kinds = (kind for kind in all_kinds() if kind.recognition.software)
    return next((kind.name for kind in kinds if software.startswith(kind.recognition.software)), "")


def page_at(path: str) -> RenderingPage | None:
    """Return the rendering page at ``path``, of whichever kind; None if no kind has one there."""
    return _pages(_InForce.kinds).get(path)


@lru_cache(maxsize=1)
def _pages(kinds: tuple[ServerKind, ...]) -> dict[str, RenderingPage]:
    pages = [kind.serving.rendering for kind in kinds]
    return {page.path: page for page in reversed(pages) if page is not None}


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))
