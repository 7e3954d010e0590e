"""The ways in which a capture is run: the server behind the proxy, its settings, the clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from same import midnight
from same.replies import Json, Said
from same.upstream import Kind

_PINS = "claude-pin-current-date,claude-pin-git-status,claude-pin-date,openclaw-pin-current-date"
_TWO = """
[[upstream]]
name = "gone"
url = "http://127.0.0.1:{gone}"

[[upstream]]
name = "here"
url = "http://127.0.0.1:{here}"
"""


@dataclass(frozen=True)
class Variant:
    """One way to run a capture.

    ``kind``: of server; ``suits``: whether it may be run for one of the capture's prompts.
    ``options``: the proxy's, with ``{folder}`` for the run's own; ``config``: its file, with the
    ports ``{here}``, and ``{gone}``, which refuses connections. ``reasons``: each answer begins
    with reasoning. ``clock``: the proxy's moves on with each line alone, so that days and minutes
    are the same in each run; ``nightfall``: in the middle of the capture the next day begins, for
    the client, the server and the proxy. ``polls``: the proxy looks at the server's pages all the
    time.
    """

    kind: Kind
    options: tuple[str, ...] = ()
    suits: Callable[[Json], bool] = bool
    config: str = ""
    reasons: bool = False
    clock: bool = False
    nightfall: bool = False
    polls: bool = False

    @property
    def asks_at_will(self) -> bool:
        """Whether the proxy asks when it likes: when it asked, and how often, says nothing."""
        return self.polls or bool(self.config)

    def lines(self, lines: list[Json]) -> list[Json]:
        """Return what the client sends."""
        return midnight.over(lines) if self.nightfall else lines

    def said(self, said: Said, number: int) -> Said:
        """Return what the model answers to line ``number``, which in the capture was ``said``."""
        if not self.reasons or any(part[0] == "thinking" for part in said):
            return said
        return [("thinking", f"Thought {number}: what was asked, and what is there."), *said]


def _is_anthropic(line: Json) -> bool:
    path: str = line["path"]
    return path.partition("?")[0].endswith("/messages")


def _is_chat(line: Json) -> bool:
    path: str = line["path"]
    return path.endswith("/chat/completions")


def _may_reason(line: Json) -> bool:
    return _is_anthropic(line) or _is_chat(line)


_LLAMA = Kind(llama=True, hoists=True)
VARIANTS = {
    "plain": Variant(Kind()),
    "hoists": Variant(_LLAMA),
    "refuses": Variant(Kind(llama=True, refuses=True), suits=_is_anthropic),
    "pins": Variant(Kind(llama=True), ("--enable", _PINS)),
    "chat": Variant(Kind(llama=True, without=("/messages", "/count_tokens")), suits=_is_anthropic),
    "messages": Variant(
        Kind(without=("/chat/completions",)), ("--dialect", "anthropic"), suits=_is_chat
    ),
    "thinking": Variant(
        Kind(llama=True, drops_reasoning=True),
        ("--keep-thinking", "yes"),
        suits=_may_reason,
        reasons=True,
    ),
    "midnight": Variant(
        Kind(llama=True, tells_day=True), suits=midnight.names_day, clock=True, nightfall=True
    ),
    "down": Variant(_LLAMA, config=_TWO),
    "capture": Variant(_LLAMA, ("--capture", "{folder}/capture"), clock=True),
    "totals": Variant(_LLAMA, ("--state-dir", "{folder}/state"), clock=True, polls=True),
    "polls": Variant(replace(_LLAMA, counts=True), polls=True),
}
