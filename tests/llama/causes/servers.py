"""The real llama.cpp in each of its memory kinds, as a stage for causes."""

from __future__ import annotations

import socket
import tempfile
import urllib.request
from functools import cache
from pathlib import Path
from typing import Any

from cacheproxy_demo.embedded import LlamaServer

from tests.llama.templates import REWRITING, TEMPLATES
from tests.models.families import write_family

from .talk import CORPUS

KINDS = {
    "llama": "rewindable",
    "gemma3": "checkpointed",
    "gpt-oss": "checkpointed",
    "qwen35": "checkpointed",
    "qwen3next": "checkpointed",
    "lfm2": "checkpointed",
}
"""How the memory of each family can be gone back in."""


def template_named(name: str) -> str:
    """The text of a template."""
    return (TEMPLATES | REWRITING)[name]


@cache
def _models() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()  # until the interpreter ends


@cache
def model_of(name: str, text: str, seed: int) -> Path:
    """A model of the family ``name``, written once: a quarter of a second each would add up."""
    path = Path(_models().name, f"{name}-{seed}-{len(text)}.gguf")
    return write_family(path, name, text=text, seed=seed)


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


class Llama:
    """A llama.cpp server that keeps its port over restarts.

    ``text``: what will be sent to it. ``settings``: see ``LlamaServer``; it has room for one
    conversation unless they say another thing, so that ``small`` changes nothing.
    """

    model = "random"

    def __init__(
        self, name: str, folder: Path, template: str, text: str = CORPUS, **settings: Any
    ) -> None:
        self.name = name
        self._text = text
        self.kind = KINDS[name]
        self._folder = folder
        self._template = template_named(template)
        settings.pop("small", None)
        self._settings = {"n_ctx": 16_384, "port": free_port(), **settings}
        self._seed = 1
        self._server = self._start()

    @property
    def url(self) -> str:
        """Its address, the same for ever."""
        return self._server.url

    def log(self) -> str:
        """What it has logged since its last start."""
        return self._server.log()

    def restart(self, **settings: Any) -> None:
        """Stop it and start it anew on the same port."""
        self._settings |= settings
        self._server.close()
        self._server = self._start()

    def erase(self) -> None:
        """Empty its slots behind everybody's back."""
        for slot in range(int(self._settings.get("n_parallel", 1))):
            asked = urllib.request.Request(f"{self.url}/slots/{slot}?action=erase", b"{}")
            urllib.request.urlopen(asked, timeout=60).close()

    def load_another(self) -> str:
        """Load another model, as a server does that serves several, one at a time; its name."""
        self._seed += 1
        self.restart(model_alias=["another"])
        return "another"

    def close(self) -> None:
        """Stop it."""
        self._server.close()

    def _start(self) -> LlamaServer:
        # restoring a slot's file needs a folder, and so does erasing one
        more = {"slot_save_path": f"{self._folder}/", "chat_template": self._template}
        model = model_of(self.name, self._text, self._seed)
        return LlamaServer(model, **more | self._settings)
