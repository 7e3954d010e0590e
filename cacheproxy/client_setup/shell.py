"""Lines that set environment variables, in the syntax of each shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping

_BARE = re.compile(r"[A-Za-z0-9_./:@%+=,-]+\Z")


def fish(value: str) -> str:
    """Return ``value`` quoted for fish, which has two escapes between single quotes."""
    if _BARE.match(value):
        return value
    text = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'"


def powershell(value: str) -> str:
    """Return ``value`` quoted for PowerShell, where typographic quotes count as quotes, too."""
    return "'" + re.sub("(['‘’‚‛])", r"\1\1", value) + "'"  # noqa: RUF001 - those very ones


_Words = tuple[Callable[[str, str], str], Callable[[str], str], str]
_SHELLS: dict[str, _Words] = {
    "bash": (lambda n, v: f"export {n}={shlex.quote(v)}", lambda n: f"unset {n}", "false"),
    "fish": (lambda n, v: f"set -gx {n} {fish(v)}", lambda n: f"set -e {n}", "false"),
    "powershell": (
        lambda n, v: f"$env:{n} = {powershell(v)}",
        lambda n: f"Remove-Item Env:{n} -ErrorAction SilentlyContinue",
        "",
    ),
}
"""Each shell's way to set a variable, to unset one, and to fail; "" if it has no such command."""
SHELLS = tuple(_SHELLS)


def lines(
    shell: str,
    variables: Mapping[str, str],
    unset: Iterable[str],
    notes: Iterable[str],
    missing: str = "",
) -> list[str]:
    """Return the lines for a ``shell`` of SHELLS to evaluate; ``notes`` become comments.

    ``missing``: why the client cannot work yet. It becomes a comment, too, and the lines then set
    all variables but end with a failure.
    """
    set_one, unset_one, fail = _SHELLS[shell]
    said = [line for note in (*notes, missing) for line in note.splitlines()]
    return [
        *(f"# {line}" for line in said),
        *(set_one(name, value) for name, value in variables.items()),
        *(unset_one(name) for name in unset),
        *([fail] if missing and fail else ()),
    ]
