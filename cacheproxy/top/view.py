"""What the user looks at, and what a key makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

_LONGEST = 120
_STEPS = {"j": 1, "down": 1, "k": -1, "up": -1}


@dataclass(frozen=True, slots=True)
class View:
    """What the user looks at."""

    chosen: str | None = None  #: the id of a conversation; None for the first
    is_opened: bool = False  #: its turns are shown
    search: str = ""  #: what the names in the list have in them
    is_typing: bool = False  #: the search is being written

    @property
    def opened(self) -> str | None:
        """The id of the conversation whose turns are shown."""
        return self.chosen if self.is_opened else None

    def place(self, names: Sequence[str]) -> int:
        """Return where in ``names``, the ids in the list, the chosen one is."""
        return names.index(self.chosen) if self.chosen in names else 0

    def pressed(self, key: str, names: Sequence[str]) -> View | None:
        """Return the view after ``key`` (see ``keys.read_keys``); None: the user leaves."""
        if self.is_typing:
            return self._typed(key)
        if key == "q":
            return None
        if key in _STEPS and names:
            place = min(max(self.place(names) + _STEPS[key], 0), len(names) - 1)
            return replace(self, chosen=names[place])
        if key == "enter" and names:
            return replace(self, chosen=names[self.place(names)], is_opened=not self.is_opened)
        if key == "escape":
            return replace(self, is_opened=False) if self.is_opened else replace(self, search="")
        return replace(self, is_typing=True, is_opened=False) if key == "/" else self

    def _typed(self, key: str) -> View:
        if key == "enter":
            return replace(self, is_typing=False)
        if key == "escape":
            return replace(self, is_typing=False, search="")
        if key == "backspace":
            return replace(self, search=self.search[:-1])
        is_text = len(key) == 1 and len(self.search) < _LONGEST
        return replace(self, search=self.search + key) if is_text else self
