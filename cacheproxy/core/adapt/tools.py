"""Tools: schemas that a server cannot make a grammar of, and kinds of tools that it does not know.

A schema loses the least that heals it (``Level``). The remembered level depends on the schema
alone, so a tool that comes or goes does not change the others' bytes. Most servers do not name the
tool that they refused: if several may be at fault, probes with some of the tools find it
(``Tools.probes``). Unknown kinds (custom, web_search, mcp, namespace …) are left out, and a
``tool_choice`` of one becomes ``auto``. The schema of an answer (``response_format``) is healed
likewise; it is left out for a server that refuses it beside tools.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from cacheproxy.core.adapt.adaptation import Need, Refusal, Remembered
from cacheproxy.core.adapt.blaming import KIND, Facts, kinds_refused, suspected
from cacheproxy.core.adapt.carriers import carriers, kind_of, name_of, tools_of
from cacheproxy.core.adapt.hunting import Hunt
from cacheproxy.core.adapt.schemas import Level, changes, healed
from cacheproxy.core.dialects.dialect import Json
from cacheproxy.core.document.edits import REMOVE, Edit
from cacheproxy.core.document.pointer import Path, to_pointer
from cacheproxy.core.prompt.request import Request

_WHY: dict[int, str] = {
    Level.BOUNDS: "a bound that the server refuses",
    Level.PATTERNS: "a pattern or bound that the server refuses",
    Level.PLAIN: "spelled plainly, since the server refuses the schema",
    Level.TYPED: "with one type each, since the template refuses the schema",
    Level.NAMES: "an object with these members, since the server refuses the schema",
    Level.BARE: "an object, since the server refuses the schema",
    Level.GONE: "left out, since the server refuses it",
}
_NO_KIND = "a kind of tool that the server does not know"


class Tools:
    """The adaptation of tools and schemas."""

    name = "tool-schemas"

    def needed(self, request: Request, remembered: Remembered) -> Need | None:
        """Return the remembered levels of its schemas and the refused kinds of its tools."""
        if not remembered:
            return None
        keys: list[Any] = [one.digest for one in carriers(request)]
        keys += ((KIND, kind) for kind in map(kind_of, tools_of(request)) if kind)
        found = {key: remembered[key] for key in keys if key in remembered}
        return Need(found) if found else None

    def refused(self, refusal: Refusal, request: Request, need: Need | None) -> Need | None:
        """Return the need without a probe: each schema that may be at fault loses its least."""
        facts: Facts = dict(need.facts) if need is not None else {}
        found = kinds_refused(refusal, request, facts) or suspected(refusal, request, facts)
        return Need(facts | found) if found else None

    def probes(
        self, refusal: Refusal, request: Request, need: Need | None
    ) -> Generator[Request, Refusal | None, Need | None]:
        """Return the need as ``refused`` does, but only of the schemas at fault.

        Yields probes, and is sent the refusal of each, or None if the server took it; none for an
        unknown kind of tools, or for one schema that is new. There are 64 at most, as a rule twice
        the binary logarithm of the number of tools for each schema at fault.
        """
        guess = self.refused(refusal, request, need)
        known: Facts = dict(need.facts) if need is not None else {}
        if guess is None or request.dialect is None:
            return None
        new = {key: value for key, value in guess.facts.items() if known.get(key) != value}
        if any(isinstance(key, tuple) for key in new) or (len(new) == 1 and not new.keys() & known):
            return guess
        found = yield from Hunt(request, known).run(new)
        return Need(known | found) if found else None

    def edits(self, request: Request, need: Need) -> Sequence[Edit]:
        """Return the edits of schemas, and those that leave out tools and their choice."""
        facts, body, tools = need.facts, request.json or {}, tools_of(request)
        gone = [at for at, tool in enumerate(tools) if (KIND, kind_of(tool)) in facts]
        found: list[Edit] = []
        if gone and len(gone) == len(tools):
            names = [name for name in ("tools", "tool_choice") if name in body]
            found += (Edit(f"/{name}", REMOVE, _NO_KIND) for name in names)
        elif gone:
            found += (Edit(f"/tools/{at}", REMOVE, _NO_KIND) for at in gone)
            found += _choice(body.get("tool_choice"), [tools[at] for at in gone])
        for one in carriers(request):
            level = facts.get(one.digest, 0)
            if level == Level.GONE:
                found.append(Edit(to_pointer(one.whole), REMOVE, _WHY[level]))
            elif level:
                at: Path = one.path if one.number < 0 else ("tools", one.number, *one.path)
                found += changes(one.schema, healed(one.schema, level), at, _WHY[level])
        return found


def _choice(choice: Any, gone: Sequence[Json]) -> list[Edit]:
    """Return the edit to "auto" of a ``tool_choice`` that names one of ``gone``, [] for another."""
    if not isinstance(choice, dict):
        return []
    kinds = {tool["type"] for tool in gone}
    names = {name_of(tool) for tool in gone}
    inner = choice.get("allowed_tools", choice)
    allowed = inner.get("tools") if isinstance(inner, dict) else None
    named = [one for one in (choice, *(allowed or ())) if isinstance(one, dict)]
    if not any(name_of(one) in names or one.get("type") in kinds for one in named):
        return []
    auto = {"type": "auto"} if choice.get("type") == "tool" else "auto"
    return [Edit("/tool_choice", auto, "the chosen tool is left out")]
