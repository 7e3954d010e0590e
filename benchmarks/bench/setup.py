"""The ``--setup`` step: install the peers into ``benchmarks/.peers/``.

Python peers from the package index into two environments, Bun from npm (its package carries the
binary; no install script runs), nginx and the load generators are the system's to install.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from bench.peer import BENCHMARKS, BUN_FOLDER, MITM_VENV, VENV

DEBIAN = {"nginx": "nginx-light", "wrk": "wrk", "h2load": "nghttp2-client", "npm": "npm"}
"""Commands that come from Debian, and the package of each."""


def setup() -> list[str]:
    """Install what is missing; return one line for each thing that has to be done by hand.

    Raises subprocess.CalledProcessError when pip or npm fails.
    """
    _venv(VENV, BENCHMARKS / "peers-requirements.txt")
    _venv(MITM_VENV, BENCHMARKS / "mitmproxy-requirements.txt")
    if shutil.which("npm"):
        BUN_FOLDER.mkdir(parents=True, exist_ok=True)
        options = ["--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(BUN_FOLDER)]
        subprocess.run(["npm", "install", *options, "bun"], check=True)
    absent = [package for command, package in DEBIAN.items() if not shutil.which(command)]
    return [f"apt-get install {' '.join(absent)}"] if absent else []


def _venv(folder: Path, requirements: Path) -> None:
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--requirement", str(requirements)]
    subprocess.run(command, check=True)
