"""What a client is told: variables of a shell, or a part of a file."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from cacheproxy.client_setup.need import Need
from cacheproxy.core.privacy.access import TOKEN_HEADER

TOKEN = TOKEN_HEADER.decode().title()
"""The header for the proxy's token where the server's own key stands in the usual one."""
PROVIDER = "cacheproxy"
"""What a client's file calls the proxy."""


@dataclass(frozen=True, slots=True)
class Setup:
    """``variables`` and ``unset``: of the shell. ``content``: what goes into ``file``.

    ``file`` is None where the content is for people, who type it in. ``notes``: what to know.
    ``warnings``: what will not work.
    """

    variables: dict[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    file: str | None = None
    content: str | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def of_json(file: str, value: Any, need: Need, *notes: str) -> Setup:
    """Return a setup whose ``file`` is JSON."""
    content = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    return Setup(file=file, content=content, notes=(*key_notes(need), *notes))


def no_header(client: str, need: Need) -> tuple[str, ...]:
    """Return the warning that ``client`` cannot send the token, if it has to."""
    if not need.needs_header:
        return ()
    return (f"{client} cannot send both the proxy's token and the server's key",)


def key_notes(need: Need) -> tuple[str, ...]:
    """Return which variables a file refers to."""
    names = [need.key_variable, "CACHEPROXY_TOKEN" if need.needs_header else None]
    return tuple(
        f"Set the variable {name} in the environment of the client." for name in names if name
    )


def quoted(text: str) -> str:
    """Return ``text`` as TOML's basic and YAML's double-quoted string: JSON is among both."""
    return json.dumps(text, ensure_ascii=False)
