"""What all groups of one run share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.bodies import Bodies
from bench.figures import Figures
from bench.plan import Plan


@dataclass(frozen=True)
class Run:
    """``folder``: for configurations, logs and state; it goes when the run ends."""

    bodies: Bodies
    plan: Plan
    figures: Figures
    folder: Path

    def note(self, who: str, what: object) -> None:
        """Remember what went wrong, once."""
        text = f"{who}: {what if str(what) else type(what).__name__}"
        if text not in self.figures.notes:
            self.figures.notes.append(text)
