"""The process in which llama.cpp's server runs.

``python -m cacheproxy_demo.embedded.child MODEL SETTINGS``: SETTINGS is a JSON object. The first
line on standard output is the result: ``READY http://127.0.0.1:PORT`` or ``UNAVAILABLE`` with the
package to install. llama.cpp logs to standard error. The process exits when its standard input
ends.
"""

from __future__ import annotations

import json
import signal
import sys
from types import ModuleType
from typing import Any

READY = "READY "
UNAVAILABLE = "UNAVAILABLE "
LEAVE_SECONDS = 30
"""Seconds after the end of standard input, after which a process that hangs is killed."""

INSTALL_WHEEL = (
    "The embedded llama.cpp is not installed: pip install xllamacpp "
    "(wheels: 64-bit Linux with glibc, macOS, Windows)."
)
INSTALL_LIBGOMP = (
    "The embedded llama.cpp needs the system library libgomp.so.1: apt install libgomp1 "
    "(Fedora: dnf install libgomp)."
)


def import_library() -> ModuleType:
    """Return xllamacpp. Raises ImportError with one line that names the package to install."""
    try:
        import xllamacpp  # noqa: PLC0415 (a missing library is an answer here)
    except ModuleNotFoundError as error:
        if error.name != "xllamacpp":
            raise
        raise ImportError(INSTALL_WHEEL) from error
    except ImportError as error:
        if "libgomp" in str(error):
            raise ImportError(INSTALL_LIBGOMP) from error
        reason = " ".join(str(error).split())
        raise ImportError(
            f"The embedded llama.cpp cannot be loaded on this machine: {reason}"
        ) from error
    library: ModuleType = xllamacpp
    return library


def start(library: ModuleType, model: str, settings: dict[str, Any]) -> Any:
    """Start the server on a free port and return it when the model is loaded.

    Raises AttributeError or TypeError for a setting that llama.cpp does not know, and RuntimeError
    if the server does not start.
    """
    parameters = library.CommonParams()
    parameters.model.path = model
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    for name, value in settings.items():
        *path, last = name.split("__")
        owner = parameters
        for part in path:
            owner = getattr(owner, part)
        # A model's aliases must be a set, which JSON does not have.
        setattr(owner, last, set(value) if last == "model_alias" else value)
    return library.Server(parameters)


def main(arguments: list[str]) -> int:
    """Run the server until standard input ends; return the exit status."""
    # Ctrl-C reaches the whole group, but the parent decides when this process exits.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    model, settings = arguments
    try:
        library = import_library()
    except ImportError as error:
        print(f"{UNAVAILABLE}{error}", flush=True)  # noqa: T201
        return 1
    server = start(library, model, json.loads(settings))
    print(f"{READY}{server.listening_address}", flush=True)  # noqa: T201
    sys.stdin.buffer.read()
    if hasattr(signal, "alarm"):
        # A server that is stopped while it starts to listen may wait for itself for ever.
        signal.alarm(LEAVE_SECONDS)
    del server  # stops its threads, which otherwise crash at interpreter exit
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
