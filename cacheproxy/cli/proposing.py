"""Rules proposed from captures, as text; any rules, into the user's config file."""

from __future__ import annotations

import contextlib
import os
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cacheproxy.asking import CommandError
from cacheproxy.cli.inspecttext import field_name
from cacheproxy.config import ENV_PREFIX, ConfigError, default_file, load
from cacheproxy.core.diagnose.propose import Proposal, Refusal


class AppendError(CommandError):
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
            yield "# Off by default, for the model then goes on seeing the first one. Switch it on"
            yield f"# with --enable {proposal.rule.name}, or without the line default = false."
        yield from proposal.toml().split("\n")
    for refusal in refusals:
        found = refusal.field
        yield f"# No rule for {field_name(found)} ({found.kind.value}): {refusal.why}."


@dataclass(frozen=True, slots=True)
class Appended:
    """A file that was appended to; ``before``: its text, None where it was made."""

    file: Path
    before: str | None

    def undo(self) -> None:
        """Leave the file as it was."""
        if self.before is None:
            self.file.unlink(missing_ok=True)
        else:
            _replace(self.file, self.before)


def append(tables: Sequence[str], config: str | None, enable: Sequence[str] = ()) -> Appended:
    """Append ``tables`` to the config file, and switch the rules in ``enable`` on.

    Raises AppendError.

    ``config``: its name, else that in CACHEPROXY_CONFIG, else the user's own file, which is made
    for the user alone to read. It must be right before, and is only replaced if it is after.
    Tables that it has already, word for word, are not appended once more.
    """
    named = config or os.environ.get(f"{ENV_PREFIX}CONFIG")
    try:
        file = (Path(named).expanduser() if named else default_file()).resolve()
        if file.exists() and not file.is_file():  # /dev/null, say, must stay what it is
            raise AppendError(f"nothing appended: {file} is no plain file: name one with --config")
        before = file.read_text(encoding="utf-8") if file.exists() else None
        text = before or ""
        known = {rule.name for rule in load({}, {}, str(file)).rule} if text else set()
        text = _with_enabled(text, enable, file)
    except (OSError, RuntimeError, UnicodeDecodeError, ConfigError) as error:
        raise AppendError(f"nothing appended: {error}") from None
    new = [table for table in tables if table not in text]
    for name in (tomllib.loads(table)["rule"][0]["name"] for table in new):
        if name in known:
            raise AppendError(f"nothing appended: {file} has another rule called {name!r}")
    gap = "" if not (text and new) else "\n" if text.endswith("\n") else "\n\n"
    try:
        if new or enable:
            _replace(file, text + gap + "\n".join(new))
    except OSError as error:
        raise AppendError(f"nothing appended: cannot write {file}: {error.strerror}") from None
    return Appended(file, before)


def _with_enabled(text: str, names: Sequence[str], file: Path) -> str:
    """Return the file's ``text`` with ``enable``, which comes before its tables."""
    if not names:
        return text
    listed = ", ".join(f'"{name}"' for name in names)
    if "enable" in tomllib.loads(text):
        raise AppendError(f"nothing appended: add {listed} to enable in {file}")
    return f"enable = [{listed}]\n{text}"


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
        if os.name == "posix" and file.exists():  # of root's, the proxy could not read it
            with contextlib.suppress(PermissionError):
                os.chown(made, file.stat().st_uid, file.stat().st_gid)
        made.replace(file)
    finally:
        made.unlink(missing_ok=True)
