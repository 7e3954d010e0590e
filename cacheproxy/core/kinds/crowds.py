"""Crowds: the cost of several conversations at one llama-server, and the settings that fit them.

The costs were measured on llama.cpp (xllamacpp 2026.10, full attention) by
``benchmarks/crowds.py``, each on a fresh server. benchmarks/README.md shows the same table.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import NamedTuple

from cacheproxy.core.kinds.profile import Memory

_NEAR = 1.05
"""Factor of the best setting's cost that a setting with fewer changes may have."""
_FELT = 0.9
"""Share of the tokens evaluated now, below which a setting is worth a restart."""


class Crowd(StrEnum):
    """Patterns of conversations that compete at a server; each value is a column's title."""

    TURNS = "two by turns, two thirds in common"
    HEAD = "five by turns, nine tenths in common"
    SUBAGENTS = "a main thread with subagents and titles"
    TOGETHER = "four started together, one head"


class CrowdSetting(NamedTuple):
    """Flags for a crowd, and their effect."""

    flags: str  #: the flags, as written on the command line
    now: int  #: tokens that the measured crowd evaluated with the server's present settings
    then: int  #: tokens that it evaluated with ``flags``
    memory: Memory  #: the server's present memory
    beside: tuple[str, int] | None = None
    """Flags that leave the number of slots, and the tokens then; None if ``flags`` do, or none
    helps."""

    @property
    def text(self) -> str:
        """The flags and their effect, as a sentence for users."""
        text = f"{self.flags}: where it was measured, such a crowd evaluated {self.then:,} tokens "
        text += f"instead of {self.now:,}"
        if "--parallel" in self.flags:
            text += ", but requests wait for one another"
        if self.beside is not None:
            text += f"; with {self.memory.slots} slots as now, {self.beside[0]}: {self.beside[1]:,}"
        assumed = ["a similarity of 0.1"]
        assumed += ["a RAM cache"] if self.memory.has_ram is None else []
        is_open = self.memory.slots != 1 and self.memory.is_unified is None
        assumed += ["one memory for all slots"] if is_open else []
        return f"{text}. (Defaults are assumed where no page tells: {', '.join(assumed)})"


SIMILARITIES = (0.1, 0.5, 0.9)
"""Values of ``--slot-prompt-similarity``; the first is the default."""
MEASURED: Mapping[tuple[int, int], tuple[tuple[int, int, int], ...]] = {
    (1, 1): ((8998, 8998, 4796), (7216, 7216, 5425), (15544, 10072, 8837), (4712, 4712, 4461)),
    (1, 0): ((8998, 8998, 8998), (7216, 7216, 7216), (20747, 20747, 20747), (4712, 4712, 4712)),
    (2, 1): ((8998, 8998, 7264), (7216, 7216, 9684), (16452, 13909, 13675), (7180, 7180, 6913)),
    (2, 0): ((8998, 8998, 7264), (7216, 7216, 9684), (21487, 21487, 21487), (7180, 7180, 7180)),
    (4, 1): ((8998, 8998, 7264), (7216, 7216, 9684), (16452, 18308, 15300), (11625, 11865, 11120)),
    (4, 0): ((8998, 8998, 7264), (7216, 7216, 14620), (16452, 12605, 10704), (11120, 11120, 11120)),
}
"""Tokens evaluated by each Crowd at each of SIMILARITIES. The keys: number of slots, which share
one memory, and whether there is a RAM cache (1) or none (0)."""


def setting_for(crowd: Crowd, memory: Memory) -> CrowdSetting | None:
    """Return the setting that ``crowd`` needs at a llama-server; None: its own fits, or is unknown.

    The similarity, which no page reports, is assumed to be the default; a RAM cache is assumed
    unless it is known to be off. Slots with separate memories were not measured.
    """
    slots, has_ram = memory.slots, memory.has_ram is not False
    if slots is None or (slots > 1 and memory.is_unified is False):
        return None
    mine, which = slots if slots < 3 else 4, [*Crowd].index(crowd)
    now = MEASURED[mine, has_ram][which][0]
    cells = {
        (count, similarity): tokens
        for (count, ram), row in MEASURED.items()
        for similarity, tokens in zip(SIMILARITIES, row[which], strict=True)
        if ram
    }

    def least(among: Collection[tuple[int, float]]) -> tuple[str, int]:
        enough = _NEAR * min(cells[each] for each in among)
        found = [cell for cell in among if cells[cell] <= enough]
        count, similarity = min(found, key=lambda cell: (cell[0] != mine, cell[1]))
        flags = [f"--parallel {count}"] if count != mine else []
        flags += [f"--slot-prompt-similarity {similarity}"] if similarity != 0.1 else []
        return " ".join(flags + ["--cache-ram 8192"] * (not has_ram)), cells[count, similarity]

    flags, then = least(cells)
    kept = least([cell for cell in cells if cell[0] == mine])
    helps = kept[0] != flags and kept[1] <= _FELT * now
    found = CrowdSetting(flags, now, then, memory, kept if helps else None)
    return found if then <= _FELT * now else None
