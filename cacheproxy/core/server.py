"""Which model server answers, told by its own status pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LLAMA_SERVER = "llama-server"
UNKNOWN = "model server"
"""What a server is called that does not tell what it is."""
PAGES = ("/props", "/v1/models", "/api/version")
"""What to ask for: llama-server's properties, any server's models, Ollama's version."""


@dataclass(frozen=True, slots=True)
class Server:
    """What is known of the upstream; None where it does not say. ``context`` in tokens."""

    kind: str = UNKNOWN
    version: str | None = None
    model: str | None = None
    context: int | None = None
    slots: int | None = None

    @property
    def summary(self) -> str:
        """One line for people."""
        parts = [f"{self.kind} {self.version}" if self.version else self.kind]
        if self.model:
            parts.append(self.model)
        if self.context:
            parts.append(f"{self.context:,} context")
        if self.slots:
            parts.append(f"{self.slots} slot{'s' if self.slots > 1 else ''}")
        return " · ".join(parts)


def identify(pages: Mapping[str, Any]) -> Server:
    """Return the server whose PAGES said ``pages`` (path to JSON value; missing if it failed)."""
    props = pages.get("/props")
    version = pages.get("/api/version")
    model = _first_model(pages.get("/v1/models"))
    name = _text(model.get("id"))
    if isinstance(props, dict) and "default_generation_settings" in props:
        settings = props["default_generation_settings"]
        context = settings.get("n_ctx") if isinstance(settings, dict) else None
        build: str | None = (_text(props.get("build_info")) or "").partition("-")[0]
        if build in ("", "b0"):  # b0: built without its history, so it does not know
            build = None
        slots = _number(props.get("total_slots"))
        return Server(LLAMA_SERVER, build, name, _number(context), slots)
    if isinstance(version, dict) and _text(version.get("version")):
        return Server("Ollama", _text(version.get("version")), name)
    owner = (_text(model.get("owned_by")) or "").lower()
    kind = {"vllm": "vLLM", "sglang": "SGLang"}.get(owner, UNKNOWN)
    return Server(kind, None, name, _number(model.get("max_model_len")))


def _first_model(page: Any) -> dict[str, Any]:
    data = page.get("data") if isinstance(page, dict) else None
    first = data[0] if isinstance(data, list) and data else None
    return first if isinstance(first, dict) else {}


def _text(value: Any) -> str | None:
    """Return printable text of a sane length: it goes to a terminal."""
    if not isinstance(value, str) or not value.isprintable():
        return None
    return value[:80]


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
