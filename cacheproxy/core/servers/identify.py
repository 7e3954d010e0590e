"""Which model server answers, known from its status pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

LLAMA_SERVER = "llama-server"
OLLAMA, VLLM, SGLANG, MLX = "Ollama", "vLLM", "SGLang", "mlx-lm"
TRANSFORMERS, LM_STUDIO, TABBY = "transformers serve", "LM Studio", "TabbyAPI"
UNKNOWN = "model server"
"""What a server is called that does not tell what it is."""
PAGES = ("/props", "/v1/models", "/api/version")
"""What to ask for: llama-server's properties, any server's models, Ollama's version."""
VERSION, LOADING = "/version", "/load_model"
MORE_PAGES = (VERSION, LOADING)
"""What to ask for besides where it may tell (see ``may_tell``): vLLM's version; the page that
loads a model in ``transformers serve``, which answers 405 to GET."""
_OWNERS = {
    "vllm": VLLM,
    "sglang": SGLANG,
    "organization_owner": LM_STUDIO,
    "tabbyapi": TABBY,
}
"""What each says in ``/v1/models`` of who owns its models."""
_PYTHON, _UVICORN = "BaseHTTP", "uvicorn"
"""How Python's own HTTP server, on which mlx-lm is built, and that of FastAPI call themselves."""


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What is known of the upstream; None where it does not say."""

    kind: str = UNKNOWN  #: what software it is
    version: str | None = None  #: as it spells it
    model: str | None = None  #: the one that it serves
    context: int | None = None  #: tokens
    slots: int | None = None  #: how many prompts it holds at a time

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


@dataclass(frozen=True, slots=True)
class Signs:
    """What answers say besides their bodies."""

    software: str = ""  #: their header ``ServerFacts``
    statuses: Mapping[str, int] = field(default_factory=dict)  #: by path


NO_SIGNS = Signs()


def may_tell(path: str, pages: Mapping[str, Any], signs: Signs) -> bool:
    """Whether one of MORE_PAGES can tell more of a server whose PAGES said ``pages``."""
    kind = identify(pages, signs).kind
    if path == LOADING:
        return kind == UNKNOWN and signs.software.startswith(_UVICORN)
    return kind == VLLM


def identify(pages: Mapping[str, Any], signs: Signs = NO_SIGNS) -> ServerFacts:
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
        return ServerFacts(LLAMA_SERVER, build, name, _number(context), slots)
    if isinstance(version, dict) and _text(version.get("version")):
        return ServerFacts(OLLAMA, _text(version.get("version")), name)
    kind = _OWNERS.get((_text(model.get("owned_by")) or "").lower(), UNKNOWN)
    if kind == UNKNOWN and _is_mlx(model, signs):
        kind = MLX
    elif kind == UNKNOWN and signs.statuses.get(LOADING) == 405:
        kind = TRANSFORMERS
    page = pages.get(VERSION) if kind == VLLM else None
    release = _text(page.get("version")) if isinstance(page, dict) else None
    return ServerFacts(kind, release, name, _number(model.get("max_model_len")))


def _is_mlx(model: Mapping[str, Any], signs: Signs) -> bool:
    """Whether a model is listed as mlx-lm does it: by nobody, and by Python's own server."""
    return signs.software.startswith(_PYTHON) and set(model) == {"id", "object", "created"}


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
