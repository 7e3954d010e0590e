"""Who names a kind of a noun outside its home: a dialect, a kind of server, a client.

    python -m tests.nouns [dialect|server|client]

Counted are names, attributes, arguments and strings of the package's modules, not docstrings and
comments; of its own scripts for the page, all but comments. A question about a dialect, a server or
a client is answered by its value, so only its home has to know which one it is.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parents[1] / "cacheproxy"
FOREIGN = {"web/static/uplot.js"}
"""Scripts that others wrote."""
SCRIPT_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


class Noun(NamedTuple):
    """What has kinds that only its home may name."""

    homes: tuple[str, ...]  #: folders of the package
    named: re.Pattern[str]  #: what a name or a string of a kind has in it


NOUNS = {
    "dialect": Noun(
        ("core/dialects/",),
        re.compile(
            r"(?<!\w)/messages(?![/\w])|/v1/messages|chat/completions|/responses\b|/completions?\b"
            r"|/api/(chat|generate)\b|/count_tokens|generateContent|core\.dialects\.(messages|chat|responses|completion|ollama|google)\b"
            r"|^(ANTHROPIC|CHAT|RESPONSES|COMPLETION|OLLAMA|GOOGLE)$"
            r"|^(anthropic|openai-chat|openai-responses|ollama)$"
        ),
    ),
    "server": Noun(
        ("core/kinds/",),
        re.compile(
            r"llama|vllm|sglang|lm.?studio|mlx|litellm|tabby|transformers.serve", re.IGNORECASE
        ),
    ),
    "client": Noun(
        (),
        re.compile(
            r"claude|codex|opencode|openclaw|\bcline\b|qwen.?code|\baider\b|\bgoose\b|\bcrush\b"
            r"|librechat|gemini.?cli|copilot|\bkilo\b|continue\.dev|(?<![a-z])(gemini|qwen)(?![a-z])",
            re.IGNORECASE,
        ),
    ),
}


def naming(noun: Noun) -> dict[str, list[str]]:
    """Return the files outside of the noun's homes that name a kind of it, with what they say."""
    files = sorted(file for kind in ("py", "js", "html") for file in PACKAGE.rglob(f"*.{kind}"))
    found = {}
    for file in files:
        name = file.relative_to(PACKAGE).as_posix()
        if not name.startswith(noun.homes or ("-",)) and name not in FOREIGN:
            found[name] = [text for text in _said(file) if noun.named.search(text)]
    return {name: texts for name, texts in found.items() if texts}


@cache
def _said(file: Path) -> tuple[str, ...]:
    return tuple(said(file))


def said(file: Path) -> Iterator[str]:
    """Return the names and the strings in ``file``, one by one."""
    source = file.read_text(encoding="utf-8")
    if file.suffix != ".py":
        yield from SCRIPT_COMMENT.sub("", source).splitlines()
        return
    texts = {id(text) for text in documentation(nodes(file))}
    for node in nodes(file):
        match node:
            case ast.Constant(value=str(value)) if id(node) not in texts:
                yield value
            case ast.Constant(value=bytes(value)):
                yield value.decode("latin-1")
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name):
                yield name
            case ast.ImportFrom(module=str(name)):
                yield name
            case ast.alias(name=name, asname=other):
                yield from (one for one in (name, other) if one)
            case ast.keyword(arg=str(name)):
                yield name


@cache
def nodes(file: Path) -> list[ast.AST]:
    """Return all that a module is written with: to read it once takes a second for the package."""
    return list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))


def documentation(written: list[ast.AST]) -> Iterator[ast.Constant]:
    """Return the strings that are docstrings, of what stands above them or around them."""
    for node in written:
        body = getattr(node, "body", None)
        for one in body if isinstance(body, list) else []:
            if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant):
                yield one.value


def report(noun: Noun) -> str:
    """Return how many files name a kind of ``noun``, then each of them with what it says."""
    files = naming(noun)
    lines = [
        f"  {file}: {'; '.join(sorted({text[:60] for text in texts}))[:150]}"
        for file, texts in files.items()
    ]
    return "\n".join([f"{len(files)} files", *lines])


if __name__ == "__main__":
    for asked in sys.argv[1:] or NOUNS:
        sys.stdout.write(f"{asked}: {report(NOUNS[asked])}\n")
