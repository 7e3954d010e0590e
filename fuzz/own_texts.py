"""Law 2, with all packages: what a client's own user typed or a tool returned stays to the letter.

    python -m fuzz.own_texts [--bodies 20000] [--seed 1]

Conversations of each client, as it builds them: its system text, blocks, stamps and tools at their
exact places, some of it other ones in each turn. Users and tools say what the rules look for, and
what notes say, at random places of their texts. Each turn goes through all rules, with the turn
before as it was sent, without one, or with one of another history. What must hold: users' texts
are there, with whole notes behind them at most; answers and tool results are the same; a second
pass changes nothing; no rule fails. ``tests/test_own_texts.py`` runs a share.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from random import Random
from typing import Any

from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.code_rule import Normalizer
from cacheproxy.core.rules.fold import normalize
from cacheproxy.plugin.packages import Packages
from fuzz.agents import AGENTS, DATE, RULES_OF_AIDER
from tests import shapes

BODIES = 20_000
PATHS = {
    "messages": "/v1/messages",
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "ollama": "/api/chat",
}
GEMINI = "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse"
OWN = (
    shapes.METADATA,
    "<system-reminder>\n# currentDate\n",
    "<system-reminder>\nThis is the Qwen ",
)
"""What clients begin user messages with."""
PROSE = ("", "How do I parse this?", "Fix the tests.\n", "- ERROR\n\n", "und? ", "```\n", "> ")


def notes_of(rules: list[Normalizer]) -> list[str]:
    """Return what the notes of ``rules`` say, with digits for values."""
    told = [note for rule in rules if (note := getattr(rule, "note", None))]
    return [
        f"<system-reminder>\n{re.sub(r'.g<volatile>', '2{}', n)}\n</system-reminder>" for n in told
    ]


class Scene:
    """A conversation of one client, which grows from turn to turn."""

    def __init__(self, random: Random, name: str, told: list[str]) -> None:
        """``told``: what notes say."""
        self._random, self.agent, self._told = random, AGENTS[name], told
        self.api = "gemini" if name == "gemini" else random.choice(list(PATHS))
        own_blocks = self.agent.before or self.agent.now
        self._in_blocks = bool(own_blocks) or (random.random() < 0.5 and not self.agent.suffix)
        self._files = self._said() if random.random() < 0.3 else ""
        self.typed: list[str] = []
        self.results: list[str] = []
        self.prefixes: list[str] = []

    def grow(self) -> None:
        """Add a question, and what a tool says to the one before."""
        text = self._said() or "und?"
        # At the client's own place, where it has written nothing itself, its shape is its own.
        if text.startswith(OWN) and not self.agent.before:
            text = f"- {text}"
        self.typed.append(text)
        self.results.append(self._said())
        self.prefixes.append(self._random.choice(self.agent.prefixes))

    def _said(self) -> str:
        """Some prose and what rules look for, in any order; anywhere, also at the beginning."""
        known = (*shapes.SHAPES, *self._told, DATE, RULES_OF_AIDER, *self.agent.before)
        parts = [
            self._random.choice(self._random.choice((PROSE, known)))
            for _ in range(self._random.randint(1, 4))
        ]
        return self._random.choice(("", "\n", "\n\n")).join(parts).replace("{}", str(self._digit()))

    def _digit(self) -> int:
        return self._random.randint(1, 3)

    def request(self, *, ends_with_a_tool: bool, other: bool = False) -> Request:
        """Return the next turn; ``other``: of a history in which users typed other digits."""
        digit = str(self._digit())
        items: list[dict[str, Any]] = []
        last = len(self.typed) - 1
        for number, text in enumerate(self.typed):
            said = text.translate(str.maketrans("123", "312")) if other else text
            items.append(self._user(number, said, number == last, digit))
            if number < last or ends_with_a_tool:
                items += self._answered(number)
        if self.agent.after:
            text = self.agent.after.replace("{}", digit)
            items.append({"role": "user", "content": self._content([text], "input_text")})
        body = json.dumps(self._body(items, digit), ensure_ascii=self._random.random() < 0.5)
        headers = ((self.agent.header.encode(), b"9"), (b"user-agent", self.agent.agent.encode()))
        return Request("POST", PATHS.get(self.api, GEMINI), headers, body.encode())

    def _user(self, number: int, text: str, is_last: bool, digit: str) -> dict[str, Any]:
        own = (*self.agent.before * (number == 0), *self.agent.now * is_last)
        suffix = self.agent.suffix if is_last else ""
        texts = [*(one.replace("{}", digit) for one in own), self.prefixes[number] + text + suffix]
        return {"role": "user", "content": self._content(texts, "input_text")}

    def _content(self, texts: list[str], kind: str) -> Any:
        if not self._in_blocks:
            return texts[0]
        kind = kind if self.api == "responses" else "text"
        return [{"type": kind, "text": text} for text in texts]

    def _answered(self, number: int) -> list[dict[str, Any]]:
        text, call = self.results[number], f"call_{number}"
        answer = {"role": "assistant", "content": self._content([text], "output_text")}
        if self.api == "messages":
            block = {"type": "tool_result", "tool_use_id": call, "content": text}
            return [answer, {"role": "user", "content": [block]}]
        if self.api == "responses":
            return [answer, {"type": "function_call_output", "call_id": call, "output": text}]
        return [answer, {"role": "tool", "tool_call_id": call, "content": text}]

    def _body(self, items: list[dict[str, Any]], digit: str) -> dict[str, Any]:
        system = [part.replace("{}", digit) for part in self.agent.system]
        if self.agent.agent[:2] == "cl":  # its files stand before the git status
            system.insert(2, self._files)
        month = shapes.MONTH.replace("{}", digit)
        tools = [{"name": "WebSearch", "description": month}]
        if self.api == "gemini":
            return _google(items)
        if self.api == "messages":
            blocks = [{"type": "text", "text": part} for part in system]
            return {"system": blocks, "messages": items, "tools": tools}
        if self.api == "responses":
            return {"instructions": "\n".join(system), "input": items, "tools": tools}
        return {"messages": [{"role": "system", "content": "\n".join(system)}, *items]}


def _google(items: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the same conversation in Gemini's API, each tool response twice."""
    contents = []
    for item in items:
        content = item["content"]
        texts = [content] if isinstance(content, str) else [block["text"] for block in content]
        parts: list[Any] = [{"text": text} for text in texts]
        if item["role"] == "tool":
            told = {"id": item["tool_call_id"], "response": {"output": texts[0]}}
            parts = [{"functionResponse": told}, {"functionResponse": told}]
        contents.append({"role": "user", "parts": parts})
    return {"contents": contents}


class Checker:
    """What is wrong with a request after the rules."""

    def __init__(self, told: list[str]) -> None:
        texts = [re.escape(text).replace(r"2\{\}", r"[\s\S]*?") for text in told]
        self._note = re.compile("|".join(f"(?:{text})" for text in texts))
        self._notes = re.compile(rf"(?:\n\n(?:{self._note.pattern}))*")
        context = re.escape(shapes.CONTEXT).replace(r"\{\}", r"\d")
        self._context = re.compile(rf"{context}{self._notes.pattern}")

    def wrong(self, scene: Scene, before: Request, after: Request) -> Iterator[str]:
        """Yield each violation in a few words."""
        came, went = _items(before), _items(after)
        if scene.agent.after:
            if len(went) < len(came) or self._is_context(came[-1]) > self._is_context(went[-1]):
                yield "a context is gone"
            came, went = (
                [item for item in items if not self._is_context(item)] for items in (came, went)
            )
        if len(came) != len(went):
            yield "another number of messages"
        if scene.api == "gemini":
            ours, theirs = ([_parts(item) for item in items] for items in (came, went))
            yield from ["a part of Gemini's"] if ours != theirs else []
            return
        users = iter(range(len(scene.typed)))
        for was, now in zip(came, went, strict=False):
            content = was.get("content")
            is_typed = was.get("role") == "user" and _last(content).get("type") != "tool_result"
            if not is_typed:
                if was.get("role") not in ("system", "developer") and was != now:
                    yield f"what {was.get('role') or was.get('type')} said"
                continue
            number = next(users)
            typed, prefix = scene.typed[number], scene.prefixes[number]
            if not self._stands(typed, prefix, scene.agent.suffix, now["content"]):
                yield f"a user's text: {typed[:200]!r} became {now['content']!r:.900}"

    def _is_context(self, item: dict[str, Any]) -> bool:
        """Whether it is a message of OpenClaw's own, with notes behind it."""
        if item.get("role") != "user":
            return False
        texts = [block.get("text", "") for block in _blocks(item["content"])]
        return bool(self._context.fullmatch("\n\n".join(texts)))

    def _stands(self, typed: str, prefix: str, suffix: str, content: Any) -> bool:
        """Whether ``typed`` is in ``content``, with notes behind it, between the client's words."""
        blocks = _blocks(content)
        for place in range(len(blocks) - 1, -1, -1):
            text = blocks[place]["text"]
            for start in {prefix, prefix.replace(shapes.STAMP, "")} | _any_id(prefix):
                said = start + typed
                if not text.startswith(said):
                    continue
                rest = text[len(said) :]
                if any(self._notes.fullmatch(rest.removeprefix(one)) for one in ("", suffix)):
                    return all(self._note.fullmatch(one["text"]) for one in blocks[place + 1 :])
        return False


def _any_id(prefix: str) -> set[str]:
    plain = prefix.replace('"message_id": "6678"', '"message_id": "0"')
    return {plain, plain.replace(shapes.STAMP, "")}


def _items(request: Request) -> list[dict[str, Any]]:
    body = request.json or {}
    found: list[dict[str, Any]] = body.get("messages") or body.get("input") or body["contents"]
    return found


def _blocks(content: Any) -> list[dict[str, Any]]:
    return [{"text": content}] if isinstance(content, str) else content


def _last(content: Any) -> dict[str, Any]:
    return _blocks(content)[-1]


def _parts(item: dict[str, Any]) -> list[Any]:
    """Return the parts of a content, a response that stands there twice but once."""
    parts: list[Any] = []
    for part in item["parts"]:
        if "functionResponse" not in part or part not in parts:
            parts.append(part)
    return parts


def bodies(seed: int, rules: list[Normalizer], fired: Counter[str]) -> Iterator[list[str]]:
    """Yield for each body that was run what is wrong with it; count in ``fired`` the rules."""
    random = Random(seed)  # noqa: S311 - made again from its seed
    told = notes_of(rules)
    checker = Checker(told)
    usual = [rule for rule in rules if rule.default]
    while True:
        scene = Scene(random, random.choice(list(AGENTS)), told)
        chosen = random.choice((rules, usual))
        previous = None
        for _ in range(random.randint(2, 4)):
            scene.grow()
            request = scene.request(ends_with_a_tool=random.random() < 0.3)
            if random.random() < 0.1:
                previous = scene.request(ends_with_a_tool=False, other=True)
            found = normalize(request, chosen, previous)
            again = normalize(found.request, chosen, previous)
            problems = [f"{one.rule}: {one.error}" for one in found.reports if one.error]
            problems += list(checker.wrong(scene, request, found.request))
            if again.request.body != found.request.body:
                problems.append(f"again: {[one.rule for one in again.reports]}")
            fired.update(one.rule for one in found.reports if one.edits)
            head = f"{scene.agent.agent or 'goose'} {scene.api}"
            yield [f"{head}: {problem}" for problem in problems]
            previous = found.request if random.random() < 0.9 else None


def main() -> None:
    """Run as many bodies as asked for, and say what came of it."""
    options = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
    count, seed = int(options.get("--bodies", BODIES)), int(options.get("--seed", "1"))
    rules = [rule for package in Packages().load() for rule in package.rules]
    fired: Counter[str] = Counter()
    wrong = [one for one in islice(bodies(seed, rules, fired), count) if one]
    for problems in wrong[:5]:
        print(*problems, sep="\n")  # noqa: T201 - a command
    silent = [rule.name for rule in rules if not fired[rule.name]]
    print(f"{count} bodies, {len(wrong)} with violations; edits by rule: {dict(fired)}")  # noqa: T201
    print(f"rules that never fired: {', '.join(silent) or 'none'}")  # noqa: T201
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
