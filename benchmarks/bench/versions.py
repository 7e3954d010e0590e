"""Which version of each peer was measured, for the record."""

import subprocess
from importlib.metadata import distributions
from pathlib import Path

from bench.peer import MITM_VENV, PEERS, VENV, bun

_PACKAGES = {
    "aiohttp": (VENV, ("aiohttp", "uvloop")),
    "fastapi": (VENV, ("fastapi", "httpx", "uvicorn", "uvloop", "httptools")),
    "mitmproxy": (MITM_VENV, ("mitmproxy",)),
}


def versions(python: Path) -> dict[str, str]:
    """Return peer -> "name version, …" for those that can run; ``python`` runs http.server."""
    found = {}
    for name, peer in PEERS.items():
        if peer.missing():
            continue
        if name == "nginx":
            found[name] = _said("nginx", "-v").removeprefix("nginx version: ")
        elif name == "bun":
            found[name] = f"bun {_said(bun(), '--version')}"
        elif name == "http.server":
            found[name] = _said(str(python), "--version")
        elif name in _PACKAGES:
            folder, packages = _PACKAGES[name]
            found[name] = ", ".join(_installed(folder, packages))
    return found


def _said(*command: str) -> str:
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return (run.stdout or run.stderr).strip()


def _installed(folder: Path, packages: tuple[str, ...]) -> list[str]:
    """Return "name version" of each of ``packages`` in the environment ``folder``."""
    places = [str(path) for path in folder.glob("lib/python*/site-packages")]
    have = {one.name.lower(): one.version for one in distributions(path=places)}
    return [f"{name} {have[name]}" for name in packages if name in have]
