"""Proposed rules, as text and into the user's config file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from cacheproxy.cli.inspecttext import field_name
from cacheproxy.config import ENV_PREFIX, ConfigError, default_file, load
from cacheproxy.core.diagnose.propose import Proposal, Refusal


class AppendError(Exception):
    """The file was left as it was; the message says why."""


def proposal_lines(
    proposals: Sequence[Proposal], refusals: Sequence[Refusal], *, steps: int
) -> Iterator[str]:
    """Yield the proposals as TOML, and what else changes as comments."""
    if not proposals and not refusals:
        yield "# Nothing to propose: no volatile field is without a rule."
    for proposal in proposals:
        found = proposal.field
        yield f"# {field_name(found)}: {found.kind.value}, seen in {found.count} of {steps} turns."
        if not proposal.rule.default:
            yield "# Off by default, for the model then goes on seeing the first one. Switch it on:"
            yield f"# twistd -n cacheproxy --enable {proposal.rule.name}"
        yield from proposal.toml().split("\n")
    for refusal in refusals:
        found = refusal.field
        yield f"# No rule for {field_name(found)} ({found.kind.value}): {refusal.why}."


def append(tables: Sequence[str], config: str | None) -> Path:
    """Append ``tables`` to the config file and return it; raises AppendError.

    ``config``: its name, else that in CACHEPROXY_CONFIG, else the user's own file, which is made
    for the user alone to read. It must be right before, and is only replaced if it is after.
    """
    named = config or os.environ.get(f"{ENV_PREFIX}CONFIG")
    try:
        file = (Path(named).expanduser() if named else default_file()).resolve()
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        if text:
            load({}, {}, str(file))
    except (OSError, RuntimeError, UnicodeDecodeError, ConfigError) as error:
        raise AppendError(f"nothing appended: {error}") from None
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    try:
        _replace(file, text + gap + "\n".join(tables))
    except OSError as error:
        raise AppendError(f"nothing appended: cannot write {file}: {error.strerror}") from None
    return file


def _replace(file: Path, text: str) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    mode = file.stat().st_mode & 0o777 if file.exists() else 0o600
    number, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    made = Path(name)
    try:
        with os.fdopen(number, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
        try:
            load({}, {}, name).rules()
        except ConfigError as error:
            why = str(error).replace(name, str(file))
            raise AppendError(f"nothing appended: {why}") from None
        made.chmod(mode)
        made.replace(file)
    finally:
        made.unlink(missing_ok=True)
