"""All clients that ``cacheproxy env`` knows, by name."""

from __future__ import annotations

from collections.abc import Callable

from cacheproxy.client_setup.by_files import cline, codex, crush, librechat, openclaw, opencode, pi
from cacheproxy.client_setup.by_variables import aider, claude, gemini, goose, qwen
from cacheproxy.client_setup.need import Need
from cacheproxy.client_setup.setup import Setup

CLIENTS: dict[str, Callable[[Need], Setup]] = {
    "aider": aider,
    "claude": claude,
    "cline": cline,
    "codex": codex,
    "crush": crush,
    "gemini": gemini,
    "goose": goose,
    "librechat": librechat,
    "openclaw": openclaw,
    "opencode": opencode,
    "pi": pi,
    "qwen": qwen,
}
