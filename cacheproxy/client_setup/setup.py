"""What a client is told: variables of a shell, or a part of a file."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from cacheproxy.client_setup.need import Need


@dataclass(frozen=True, slots=True)
class Setup:
    """What ``cacheproxy env`` prints for one client."""

    variables: dict[str, str] = field(default_factory=dict)  #: of the shell, with their values
    unset: tuple[str, ...] = ()  #: variables of the shell that must not be there
    file: str | None = None  #: where ``content`` goes; None: people type it in
    content: str | None = None
    notes: tuple[str, ...] = ()  #: what to know
    warnings: tuple[str, ...] = ()  #: what will not work

    @classmethod
    def of_json(cls, file: str, value: Any, need: Need, *notes: str) -> Setup:
        """Return a setup whose ``file`` is JSON."""
        content = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
        return cls(file=file, content=content, notes=(*need.key_notes, *notes))

    @staticmethod
    def quoted(text: str) -> str:
        """Return ``text`` as TOML's basic and YAML's double-quoted string: JSON is among both."""
        return json.dumps(text, ensure_ascii=False)
