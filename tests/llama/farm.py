"""Many llama.cpp servers in one process, each with its own chat template.

``python -m tests.llama.farm MODEL TEMPLATES``: the second is a JSON file of templates by name. The
first line on standard output is a JSON object of URLs by name. A server takes 40 ms to start here;
a process of its own would take as much memory as all of them.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cacheproxy_demo.embedded.child import import_library, start
from cacheproxy_demo.embedded.server import DEFAULTS, START_SECONDS

from cacheproxy.child.process import ServerProcess


class Farm(ServerProcess):
    """Running servers on the model ``model``, by the names of ``templates``; ``urls``: of each.

    Their ``/slots`` show the prompt that was rendered last.
    """

    urls: Mapping[str, str]

    def __init__(self, model: Path, folder: Path, templates: Mapping[str, str]) -> None:
        given = folder / "templates.json"
        given.write_text(json.dumps(dict(templates)))
        env = {**os.environ, "OMP_WAIT_POLICY": "passive", "LLAMA_SERVER_SLOTS_DEBUG": "1"}
        super().__init__(["tests.llama.farm", str(model), str(given)], env, is_piped=True)

    def _announced(self) -> str:
        alarm = threading.Timer(START_SECONDS, self._process.kill)
        alarm.start()
        line = self.stdout.readline()
        alarm.cancel()
        if not line:
            raise RuntimeError(f"the servers did not start:\n{self.log()[-2000:]}")
        self.urls = json.loads(line)
        return ""


def main(model: str, given: str) -> None:
    """Run the servers until standard input ends."""
    library = import_library()
    settings: dict[str, Any] = DEFAULTS | {
        "n_ctx": 16_384,
        "cpuparams__n_threads": 1,
        "cpuparams_batch__n_threads": 1,
        "sampling__ignore_eos": True,
    }
    with tempfile.TemporaryDirectory() as slots:
        more = {"slot_save_path": f"{slots}{os.sep}"}  # without it none can be emptied
        servers = {
            name: start(library, model, settings | more | {"chat_template": text})
            for name, text in json.loads(Path(given).read_text()).items()
        }
        urls = {name: server.listening_address.rstrip("/") for name, server in servers.items()}
        print(json.dumps(urls), flush=True)  # noqa: T201
        sys.stdin.buffer.read()
        servers.clear()  # their threads crash at the interpreter's end


if __name__ == "__main__":
    main(*sys.argv[1:])
