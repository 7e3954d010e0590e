"""What is named as a turn's cause: by the log line, by ``diagnose`` and by ``diagnose --from``."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from cacheproxy.cli.main import main
from cacheproxy.core.conversation.verdict import Judgement, Reason, Rewrite, Sign

_JUDGED = re.compile(rf"  ({'|'.join(Judgement)}|side)(?= {{2}}|$)")
_TURN = re.compile(r"^\S+ \S+/\S* +#\d+ ")
_CAUSE = re.compile(r"^\s{4,}(\w+)\b.*:")
_PATH = re.compile(r" in (/[^\s,;()]*?)[.,;)]*(?=\s|$)")
_SHARED = re.compile(r"([\d.]+)% shared")
_SHARE = re.compile(r"([\d.]+)\s?%")


@dataclass(frozen=True, slots=True)
class Named:
    """A cause as it was named; what was not said is empty."""

    judgement: str
    reason: str = ""
    path: str = ""
    rewrite: str = ""
    beneath: str = ""
    evidence: frozenset[str] = frozenset()
    kind: str = ""

    def __str__(self) -> str:
        more = [self.path, self.kind, self.rewrite, self.beneath and f"beneath: {self.beneath}"]
        more += sorted(self.evidence)
        said = ", ".join(filter(None, more))
        return " ".join(filter(None, (self.judgement, self.reason, f"({said})" if said else "")))


def judged(log: str) -> list[str]:
    """Return the verdict of each turn in the log."""
    turns = (line.partition("  (")[0] for line in log.splitlines() if _TURN.search(line))
    return [found[-1] for line in turns if (found := _JUDGED.findall(line))]


def from_log(log: str, label: str) -> tuple[Named, str]:
    """Return what the last line about the conversation ``label`` says, and the line itself."""
    lines = log.splitlines()
    marked = re.compile(rf" {re.escape(label)}(?:\+\d+)? ")
    index = max(number for number, line in enumerate(lines) if marked.search(line))
    line = lines[index]
    verdict = (judged(line) or [""])[0]
    follows = lines[index + 1] if index + 1 < len(lines) else ""
    cause = _CAUSE.match(follows)
    if cause is None or cause[1] not in set(Reason):
        return Named(verdict), line
    changes = [one for one in Reason if one.endswith("_changed") and one != cause[1]]
    path = _PATH.search(follows)
    is_rendered = cause[1] in (Reason.TEMPLATE_CHANGED, Reason.CHECKPOINT)
    named = Named(
        judgement=verdict,
        reason=cause[1],
        path=path[1].removesuffix("/role") if path else "",
        rewrite=next((one for one in Rewrite if one in follows), "") if is_rendered else "",
        beneath=next((one for one in changes if one in follows), "") if is_rendered else "",
        evidence=frozenset(one for one in Sign if one in follows),
    )
    return named, f"{line}\n{follows}"


def diagnosed(number: int, *where: str) -> tuple[Named | None, str]:
    """Return what ``cacheproxy diagnose`` says, and its words; ``where``: proxy or captures."""
    arguments = ["diagnose", str(number), "-c", os.devnull, *where]
    found = CliRunner().invoke(main, [*arguments, "--json"])
    text = CliRunner().invoke(main, arguments).output
    if found.exit_code:
        return None, found.output
    report: dict[str, Any] = json.loads(found.stdout)
    named = Named(
        judgement=report["judgement"],
        reason=report["reason"] or "",
        path=report["path"] or "",
        rewrite=report.get("rewrite") or "",
        beneath=report.get("beneath") or "",
        evidence=frozenset(report.get("evidence") or ()),
        kind=report.get("kind") or "",
    )
    return named, text


def live(proxy: str, number: int) -> tuple[Named | None, str]:
    """Ask the running proxy."""
    return diagnosed(number, "--proxy", proxy)


def captured(folder: Path, number: int) -> tuple[Named | None, str]:
    """Ask the captures."""
    return diagnosed(number, "--from", str(folder))


def impossible(text: str) -> list[str]:
    """Return the shares in ``text`` that are over 100 %."""
    return [share for share in _SHARE.findall(text) if float(share) > 100]


def shared(line: str) -> float | None:
    """Return the share that a log line says both prompts begin with; None where it says none."""
    found = _SHARED.search(line)
    return float(found[1]) / 100 if found else None
