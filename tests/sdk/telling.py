"""What both kinds of SDK checks share: how an error is told, and how node is asked."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

Json = dict[str, Any]


def told(error: Exception) -> Json:
    """An SDK's error in plain values, with what caused it."""
    chain: list[str] = []
    one: BaseException | None = error
    while one is not None:
        chain.append(f"{type(one).__name__}: {one}")
        one = one.__cause__
    response = getattr(error, "response", None)
    return {
        "chain": chain,
        "status": getattr(error, "status_code", None),
        "after": None if response is None else response.headers.get("retry-after"),
        "body": getattr(error, "body", None),
    }


def ask_node(
    packages: Path, script: Path, jobs: list[Json], *arguments: str, seconds: float
) -> list[Json]:
    """The answers of ``script`` to ``jobs``, run beside the SDKs installed in ``packages``."""
    shutil.copy(script, packages)  # modules are looked for beside the script
    done = subprocess.run(
        ["node", script.name, *arguments],
        cwd=packages,
        input=json.dumps(jobs),
        timeout=seconds,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers: list[Json] = json.loads(done.stdout)
    return answers
