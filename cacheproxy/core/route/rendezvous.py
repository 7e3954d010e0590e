"""Rendezvous hashing: every key has its own order of names.

The names that are there decide; where one goes away, only its own keys go elsewhere, to the next
name in their own order, so that they spread over all that are left (Thaler and Ravishankar, 1998).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b


def ranked(key: str, names: Iterable[str]) -> list[str]:
    """Return ``names``, best first for ``key``; the same in every process."""
    return list(_ranked(key, tuple(names)))


@lru_cache(maxsize=4096)
def _ranked(key: str, names: tuple[str, ...]) -> list[str]:
    """All turns of a conversation ask the same."""
    return sorted(names, key=lambda name: (_weight(key, name), name), reverse=True)


def _weight(key: str, name: str) -> bytes:
    text = f"{key}\0{name}".encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=8).digest()
