"""Real vLLM and mlx-lm on a tiny model, as stages for causes.

Both are installed by hand, see README.md; ``python`` is the interpreter that has one of them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.llama.causes.servers import free_port, template_named
from tests.llama.causes.talk import CORPUS

START_SECONDS = 900.0
STOP_SECONDS = 60.0


class Started:
    """A server that is a program of its own; ``settings``: see ``arguments``."""

    name = kind = model = ready = ""

    def __init__(
        self, python: Path, folder: Path, template: str, text: str = CORPUS, **settings: Any
    ) -> None:
        self.python = python
        self.text = text
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.settings = settings
        self.template = template_named(template)
        self.weights = self.write("model", seed=1)
        self._process = self._start()

    def write(self, name: str, seed: int) -> Path:
        """Write a model to a folder of this name."""
        text, template = self.folder / "text", self.folder / "template"
        text.write_text(self.text)
        template.write_text(self.template)
        program = Path(__file__).with_name("hfmodel.py")
        files = ("--text", text, "--template", template)
        command = [self.python, program, self.folder / name, *files, "--seed", str(seed)]
        subprocess.run(command, check=True)
        return self.folder / name

    def arguments(self) -> tuple[str, ...]:
        """What the program is started with."""
        raise NotImplementedError

    def log(self) -> str:
        """What it has said since it was first started."""
        return (self.folder / "log").read_text(errors="replace")

    def restart(self) -> None:
        """Stop it and start it anew on the same port."""
        self.close()
        self._process = self._start()

    def close(self) -> None:
        """Stop it and what it has started."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self._process.pid, number)
                self._process.wait(STOP_SECONDS)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue

    def _start(self) -> subprocess.Popen:
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [str(self.python), *self.arguments()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | self.environment(),
                start_new_session=True,
            )
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            try:
                with urllib.request.urlopen(self.url + self.ready, timeout=5):
                    return process
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)
        self._process = process
        self.close()
        raise RuntimeError(f"{self.name} did not start:\n{self.log()[-3000:]}")

    def environment(self) -> dict[str, str]:
        """What it needs of its environment: nothing from the hub, one thread."""
        (self.folder / "home" / "hub").mkdir(parents=True, exist_ok=True)
        home = str(self.folder / "home")
        return {"HF_HUB_OFFLINE": "1", "HF_HOME": home, "OMP_NUM_THREADS": "1"}


class Mlx(Started):
    """mlx_lm.server; ``small``: it keeps one prompt."""

    name, kind, model, ready = "mlx", "rewindable", "default_model", "/health"

    def arguments(self) -> tuple[str, ...]:
        size = "1" if self.settings.get("small") else "20"
        where = ("--host", "127.0.0.1", "--port", str(self.port))
        return ("-m", "mlx_lm", "server", "--model", str(self.weights), *where,
                "--prompt-cache-size", size)  # fmt: skip

    def load_another(self) -> str:
        """Write another model; the server loads what it is asked for. Return its name."""
        return str(self.write("another", seed=2))


class Vllm(Started):
    """vLLM; ``block_size``, ``small`` (4,480 tokens in all), ``uncached``, ``unflagged``."""

    name, kind, model, ready = "vllm", "blocks", "tiny", "/health"

    def arguments(self) -> tuple[str, ...]:
        flags = ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
        if not self.settings.get("unflagged"):
            flags.append("--enable-prompt-tokens-details")
        if self.settings.get("uncached"):
            flags.append("--no-enable-prefix-caching")
        length = 65_536
        block = self.settings.get("block_size")
        if self.settings.get("small"):
            length, block = 4_096, 32  # on a CPU the least that it takes
            flags += ["--num-gpu-blocks-override", "140"]
        if block:
            flags += ["--block-size", str(block)]
        return (
            *(str(self.python.with_name("vllm")), "serve", str(self.weights)),
            *("--served-model-name", self.model, "--host", "127.0.0.1", "--port", str(self.port)),
            *("--dtype", "float32", "--max-model-len", str(length), "--max-num-seqs", "8"),
            *("--enforce-eager", *flags),
        )

    def environment(self) -> dict[str, str]:
        return super().environment() | {
            "TRANSFORMERS_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "TORCHDYNAMO_DISABLE": "1",
        }
