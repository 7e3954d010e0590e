"""The search for the schemas that a server refused, by probes: short requests of our own.

Each probe has one message and some of the tools, without their descriptions. A server reads the
schemas before it evaluates anything, so a refused probe costs a few milliseconds; one that it takes
costs these tools' tokens, and one of the answer.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from cacheproxy.core.adapt.adaptation import Refusal, Remembered
from cacheproxy.core.adapt.blaming import Facts, is_about_schemas, level_said, levels_of
from cacheproxy.core.adapt.carriers import Carrier, carriers, placed, schema_path, tools_of
from cacheproxy.core.adapt.schemas import Level, healed, without_words
from cacheproxy.core.dialects.dialect import Json
from cacheproxy.core.document.edits import encode
from cacheproxy.core.prompt.request import Request

Asking = Generator[Request, Refusal | None, Facts]
"""Generator of probes; it is sent the refusal of each, or None if the server took it."""
_MOST = 64
"""Probes at most; after them, all schemas that may still be at fault are healed."""


class Hunt:
    """The search for the schemas at fault in ``request``, which was sent with ``facts``."""

    def __init__(self, request: Request, facts: Remembered) -> None:
        self._request, self._facts = request, facts
        self._left = _MOST
        self._all = {one.digest: one for one in carriers(request)}

    def run(self, suspects: Facts) -> Asking:
        """Return the levels of the schemas at fault, by digest; {} if none is.

        ``suspects``: the digests to probe first, with their levels: the lowest level goes first.
        """
        if (yield from self._asked([])) is not None:
            return {}
        rest = [one for digest, one in self._all.items() if digest not in suspects]
        groups = [
            [self._all[digest] for digest, level in suspects.items() if level == each]
            for each in sorted(set(suspects.values()))
        ]
        for group in (*groups, rest, list(self._all.values())):
            said = (yield from self._asked(group)) if group else None
            if said is not None:
                return (yield from self._searched(group, said))
        return {}

    def _searched(self, group: list[Carrier], said: Refusal) -> Asking:
        """Return the levels of the schemas at fault in a refused ``group``, by halving it.

        {} if one is refused even as the bare object: then no schema is at fault.
        """
        found: Facts = {}
        todo: list[tuple[list[Carrier], Refusal | None, bool]] = [(group, said, True)]
        while todo:  # each group with its own refusal, or with whether it would be refused
            group, told, is_refused = todo.pop()
            if self._left <= 0:
                found |= levels_of(group, 0, self._facts)
            elif len(group) == 1:
                told = told or (yield from self._asked(group))
                if told is not None or is_refused:
                    levels = yield from self._climbed(group[0], told or said)
                    if levels is None:
                        return {}
                    found |= levels
            elif is_refused or (yield from self._asked(group)) is not None:
                half = len(group) // 2
                told = yield from self._asked(group[:half])
                todo.append((group[half:], None, told is None))
                if told is not None:
                    todo.append((group[:half], told, True))
        return found

    def _climbed(
        self, one: Carrier, said: Refusal
    ) -> Generator[Request, Refusal | None, Facts | None]:
        """Return the least level at which ``one`` is taken, by its digest; None if at none."""
        level = self._facts.get(one.digest, 0)
        while (above := one.next_level(level, level_said(said))) is not None:
            level = above
            answer = yield from self._asked([one], level)
            if answer is None or self._left <= 0:
                return {one.digest: level}
            said = answer
        return None

    def _asked(
        self, group: Sequence[Carrier], level: int | None = None
    ) -> Generator[Request, Refusal | None, Refusal | None]:
        """Return the refusal of a probe with ``group`` alone if it is about schemas, else None."""
        self._left -= 1
        said = yield self._probe(group, level)
        return said if said is not None and is_about_schemas(said) else None

    def _probe(self, group: Sequence[Carrier], level: int | None) -> Request:
        """Return the probe; ``level``: of all its schemas, None: the known level of each."""
        request = self._request
        asked, dialect, given = request.json, request.dialect, tools_of(request)
        assert asked is not None
        assert dialect is not None
        body: Json = {"model": asked["model"]} if "model" in asked else {}
        body |= {dialect.items: [{"role": "user", "content": "hi"}], "stream": False}
        body |= dialect.limited({}, 1)
        tools: list[Json] = []
        for one in group:
            at = self._facts.get(one.digest, 0) if level is None else level
            if one.number >= 0:
                schema = without_words(healed(one.schema, at))
                tools.append(_tool(given[one.number], one.path, schema))
            elif at != Level.GONE:
                whole = (
                    asked if one.schema is None else placed(asked, one.path, healed(one.schema, at))
                )
                body[one.path[0]] = whole[one.path[0]]
        if group and not tools:  # an answer's form may be refused beside tools alone
            paths = ((tool, schema_path(tool)) for tool in given)
            first = next(((tool, path) for tool, path in paths if path is not None), None)
            tools += () if first is None else (_tool(*first, {"type": "object", "properties": {}}),)
        if tools:
            body["tools"] = tools
        headers = tuple([one for one in request.headers if one[0].lower() != b"accept-encoding"])
        return Request(request.method, request.target, headers, encode(body).encode())


def _tool(tool: Json, path: tuple[str, ...], schema: object) -> Json:
    """Return ``tool`` with ``schema`` at ``path``, and with an empty description, if any."""
    found = placed(tool, path, schema)
    for step in ((), *((one,) for one in path[:-1])):
        holder = found[step[0]] if step else found
        if "description" in holder:
            found = placed(found, (*step, "description"), "")
    return found
