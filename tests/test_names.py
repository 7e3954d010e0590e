"""Words with one meaning each (docs/glossary.md), in the names that cacheproxy/ defines.

``names_left.txt`` lists the names that do not have it yet, by file. No line is added to it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1] / "cacheproxy"
LEFT = Path(__file__).with_name("names_left.txt")
_ASKED = (
    "a question of ours to a server (a client sends, requests or wants; a switch is wanted)",
    ("core/adapt/hunting", "core/kinds/", "core/template/", "doctor/", "observe/judging",
     "proxy/exchange/probes", "proxy/probing/", "proxy/translation/translating"),
)  # fmt: skip
_TOLD = ("nothing: report, log, send, return, message or known say what is meant", ())
MEANT: dict[str, tuple[str, tuple[str, ...]]] = {
    "late": (
        "a system message after other messages (a pattern is slow, an error is deferred)",
        ("cli/inspect", "client_setup/need", "core/adapt/", "core/diagnose/", "core/judge/",
         "core/kinds/placement", "core/prompt/", "core/template/", "doctor/server_checks",
         "proxy/exchange/exchange"),
    ),
    "asked": _ASKED,
    "asking": _ASKED,
    "kept": (
        "reasoning of earlier turns in the prompt (bytes are retained, columns are columns)",
        ("core/adapt/thinking", "core/conversation/verdict", "core/kinds/profile",
         "core/template/rendering"),
    ),
    "held": (
        "an answer that goes on without its client (a value is stored or known, bytes wait)",
        ("config", "proxy/exchange/", "record/exchange"),
    ),
    "told": _TOLD,
    "tells": _TOLD,
    "says": _TOLD,
}  # fmt: skip
"""The one meaning of each word, and the rooms that mean it."""
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def defined(tree: ast.Module) -> Iterator[str]:
    """Names of classes, functions, parameters, constants and attributes; not of local variables."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        if isinstance(node, ast.ClassDef | ast.Module):
            for each in node.body:
                targets = each.targets if isinstance(each, ast.Assign) else ()
                targets = (each.target,) if isinstance(each, ast.AnnAssign) else targets
                for target in targets:
                    yield from (one.id for one in ast.walk(target) if isinstance(one, ast.Name))


def wrong_in(file: str, names: Iterator[str]) -> dict[str, str]:
    """Return the names that use a word outside of its rooms, each with that word."""
    return {
        name: word
        for name in names
        for word in map(str.lower, _WORD.findall(name))
        if word in MEANT and not file.startswith(MEANT[word][1])
    }


def test_words_have_one_meaning():
    """New names use no such word for anything else, and the list of those that do shrinks."""
    lines = LEFT.read_text(encoding="utf-8").splitlines()
    left = {file: names.split(" ") for file, names in (line.split(": ") for line in lines)}
    said = []
    for path in sorted(ROOT.rglob("*.py")):
        file = path.relative_to(ROOT).with_suffix("").as_posix()
        found = wrong_in(file, defined(ast.parse(path.read_text(encoding="utf-8"))))
        known = left.pop(file, [])
        said += [
            f"{file}.py: {name}: in names, {word!r} means {MEANT[word][0]}: find another word"
            for name, word in found.items()
            if name not in known
        ]
        said += [f"{LEFT.name}: {file}: strike {one}" for one in known if one not in found]
    said += [f"{LEFT.name}: strike {file}, which is no file" for file in left]
    assert not said, "\n".join(said)


def test_a_word_outside_of_its_rooms_is_found():
    tree = ast.parse("class A:\n  kept_bytes: int = 0\n  def f(self, wasTold): self.related = 1")
    names = set(defined(tree))
    assert names >= {"A", "kept_bytes", "f", "wasTold", "related"}
    assert wrong_in("record/columns", iter(names)) == {"kept_bytes": "kept", "wasTold": "told"}
    assert wrong_in("core/adapt/thinking", iter(["kept_bytes"])) == {}
