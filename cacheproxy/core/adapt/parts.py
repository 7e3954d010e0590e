"""Unreadable parts: parts of a message that a server cannot read become one line of text (law 2b).

Such parts are images, audio, video, files, blocks of unknown types, and other providers' items of
the Responses API. A text in an odd spelling is respelled; an image in a tool's result moves behind
it if the server takes images from users alone. Text of a user or a tool stays.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from cacheproxy.core.adapt import items as other
from cacheproxy.core.adapt.adaptation import Need, Refusal, Remembered
from cacheproxy.core.adapt.blocks import (
    BEHIND,
    REMOTE,
    RESULT,
    Block,
    blocks_in,
    edits_of,
    moved,
    type_of,
)
from cacheproxy.core.adapt.items import ForeignItem, items_in
from cacheproxy.core.document.edits import Edit
from cacheproxy.core.document.pointer import Path
from cacheproxy.core.prompt.request import Request, messages_of

_STATUSES = frozenset({400, 404, 415, 422, 500, 501})
"""Statuses of such refusals: llama.cpp 500 for images, mlx-lm 404, Pydantic 422, others 400."""


def _lacking(what: str) -> re.Pattern[str]:
    """Return the pattern of messages for a model that does not take ``what``."""
    does_not = r"(?:not? (?:support|accept|allow|handle)|unsupported|cannot contain)"
    is_not = r"(?:not (?:supported|allowed|enabled|accepted|available)|unsupported)"
    return re.compile(
        rf"\b{does_not}\w*[^.\n]{{0,40}}\b(?:{what})s?\b"
        rf"|\b(?:{what})s?\b[^.\n]{{0,40}}\b{is_not}\b",
        re.IGNORECASE,
    )


# Words of llama.cpp ("image input is not supported"), vLLM ("X is not a multimodal model", "At most
# 0 image(s) may be provided"), Ollama ("this model does not support image input", "missing data
# required for image input"), LM Studio ("Model does not support images"), OpenAI ("Image URLs are
# only allowed for messages with role 'user'"), templates ("System message cannot contain images").
_LACKING = {
    "image": _lacking("image|image_url|vision|image input"),
    "audio": _lacking("audio|input_audio"),
    "video": _lacking("video|video_url"),
}
_LOOKED_AT = 2_048
"""Characters of an error in which its subject is searched for: the request may follow."""
_TEXT_ONLY = re.compile(
    r"\bnot a (?:multi-?modal|vision)\b|\bmissing data required for image|\btext-only model\b",
    re.IGNORECASE,
)
_AT_MOST = re.compile(r"\bat most (\d{1,4}) (image|audio|video)\b", re.IGNORECASE)
_BY_ROLE = re.compile(
    r"\b(system|developer|assistant|tool)\b['\"]? (?:message|result|output|response)s?\b"
    r"[^.\n]{0,40}\bimages?\b|\bimages?\b[^.\n]{0,40}\bonly\b[^.\n]{0,40}\b(user)\b",
    re.IGNORECASE,
)
_IN_RESULT = re.compile(
    r"\boutput of tool call should be\b|\btool\b['\"]? (?:message|result|output|response)s?\b"
    r"[^.\n]{0,40}\b(?:only|must|should)\b[^.\n]{0,40}\b(?:text|string)",
    re.IGNORECASE,
)
_FETCHED = re.compile(
    r"\b(?:invalid|download|fetch|load)\w*\b[^.\n]{0,20}\bimage|\bimage[^.\n]{0,30}\bbase64\b",
    re.IGNORECASE,
)
# llama.cpp's ("unsupported content[].type", "'type' must be one of …", "Cannot determine type of
# 'item'"), its older "Unsupported content part type", mlx-lm's "Only 'text' content type is
# supported", Ollama's "invalid message format" and "unknown input item type", Pydantic's and
# serde's for a value that is none of those allowed, templates' "Unexpected item type in content".
_TYPE = re.compile(
    r"content\[\]\.type|\bcontent (?:part |block |item |chunk )?types?\b|'type' must be one of"
    r"|\btype of 'item'|\boutput must be a string\b|\binvalid message format|\binput item type"
    r"|\bInput tag\b"
    r"|\bInput should be\b[^\n]{0,400}'text'|\bInput should be a valid string\b"
    r"|\bunknown variant\b|\bitem type in content|\b(?:is|are) not supported by llama"
    r"|\b(?:only|unsupported|unknown|unexpected|invalid|unrecognized)\b[^.\n]{0,40}"
    r"\b(?:content|part|block|chunk|item)s?\b",
    re.IGNORECASE,
)
_REASONING = re.compile(r"item\['content'\] is (?:not an array|empty)")
_SO_MANY = "the model server takes no more than {} of type {} in a prompt"
_NOTHING = re.compile(
    r"\bno (?:user query|user message|messages?)\b[^.\n]{0,20}\b(?:found|provided)"
    r"|\broles must alternate",
    re.IGNORECASE,
)
"""Words of templates for an empty message, after the server dropped its blocks silently."""
_ALLOWED = re.compile(r"\b(?:must be|should be|expected|allowed)\b")
"""Words before the list of types that a server knows."""
_LITERALS = re.compile(r"\bInput should be ((?:'[a-z_]{1,40}'(?:, or | or |, )?){1,40})")
"""Pydantic's message for each type that it tried; between them it quotes the input."""
_ECHO = re.compile(r"; messages = |['\"]input['\"]\s*:|\binput_value=")
"""Words before a quoted part of the request."""
_QUOTED = re.compile(r"['\"`]([a-z_]{3,40})['\"`]")


class UnreadableParts:
    """The adaptation that replaces parts of messages which the server cannot read."""

    name = "unreadable-parts"

    def needed(self, request: Request, remembered: Remembered) -> Need | None:
        """Return the remembered facts about parts that ``request`` has, None for none."""
        if not remembered:
            return None
        blocks, items = _found(request)
        keys = [*(key for one in blocks for key in one.keys), *(one.key for one in items)]
        facts: dict[Any, Any] = {key: remembered[key] for key in keys if key in remembered}
        return Need(facts) if facts else None

    def refused(self, refusal: Refusal, request: Request, need: Need | None) -> Need | None:
        """Return the need with the parts that ``refusal`` is about; None if none are new."""
        if refusal.status not in _STATUSES:
            return None
        known: dict[Any, Any] = {} if need is None else dict(need.facts)
        blocks, items = _found(request)
        more = _of_items(refusal, items, known) | _of_blocks(refusal, _at(refusal, blocks), known)
        new = {key: value for key, value in more.items() if known.get(key) != value}
        gone = [item for item in items if item.key in new or item.key in known]
        if not new or (gone and not other.remains(messages_of(request)[1], gone)):
            return None
        return Need(known | new)

    def edits(self, request: Request, need: Need) -> Sequence[Edit]:
        """Return the edits: see ``blocks.edits_of`` and ``items.edits_of``."""
        dialect = request.dialect
        if dialect is None:
            return []
        root, messages = messages_of(request)
        found, items = _found(request)
        blocks, behind, seen, whys = [], set[Path](), Counter[str](), dict[Path, str]()
        for block in found:
            how = next((need.facts[key] for key in block.keys if key in need.facts), None)
            if how == BEHIND and (dialect.name, "image", "user") not in need.facts:
                behind.add(block.path)
            elif isinstance(how, int) and block.keys[0] in need.facts:
                seen[block.kind] += 1
                whys[block.path] = _SO_MANY.format(how, block.kind) if how else ""
                how = None if seen[block.kind] <= how else how
            blocks += [] if how is None else [block]
        edits = [*edits_of(blocks, behind, messages, whys)]
        for item in items:
            edits += other.edits_of(item, root) if item.key in need.facts else ()
        taken = {edit.path for edit in edits if not edit.adds}
        images = [block for block in blocks if block.path in behind]
        return [*edits, *moved(images, messages, root, dialect, taken)]


def _found(request: Request) -> tuple[list[Block], list[ForeignItem]]:
    """Return the blocks and items of ``request`` that a server may refuse."""
    (root, messages), dialect = messages_of(request), request.dialect
    if not messages or dialect is None:
        return [], []
    items = list(items_in(messages)) if dialect.is_itemised else []
    return list(blocks_in(messages, root, dialect)), items


def _of_items(refusal: Refusal, items: list[ForeignItem], known: Remembered) -> dict[Any, Any]:
    """Return the facts about those of ``items`` that ``refusal`` is about, {} for none."""
    if _REASONING.search(refusal.words[:_LOOKED_AT]):
        found = [item for item in items if item.is_reasoning]
    elif refusal.path[:1] == ("input",) or _TYPE.search(refusal.words[:_LOOKED_AT]):
        named = _types(refusal.words)[0].intersection(item.key[1] for item in items)
        found = [item for item in items if not named or item.key[1] in named]
    else:
        found = []
    return {item.key: 0 for item in found if item.key not in known}


def _of_blocks(refusal: Refusal, blocks: list[Block], known: Remembered) -> dict[Any, Any]:
    """Return the facts about blocks that ``refusal`` is about: BEHIND, or how many it takes."""
    words = refusal.words[:_LOOKED_AT]
    images = [block for block in blocks if block.kind == "image"]
    if most := _AT_MOST.search(words):
        count, medium = int(most[1]), most[2].lower()
        return {(medium,): count} if any(block.kind == medium for block in blocks) else {}
    results = [block for block in images if block.place == RESULT]
    fresh = [block for block in results if block.keys[-1] not in known]
    if _IN_RESULT.search(words) and "image'" not in words.lower() and fresh:
        return {fresh[0].keys[-1]: BEHIND}
    if role := _BY_ROLE.search(words):
        said = (role[1] or "").lower()
        place = RESULT if said == "tool" else said
        of_role = [one for one in images if (one.place == place if said else one.place != "user")]
        return {one.keys[-1]: BEHIND if one.place == RESULT else 0 for one in of_role}
    if _TEXT_ONLY.search(words):
        return {(block.kind,): 0 for block in blocks if block.kind in _LACKING}
    lacking = [medium for medium, pattern in _LACKING.items() if pattern.search(words)]
    if lacks := {(block.kind,): 0 for block in blocks if block.kind in lacking}:
        return lacks
    elsewhere = {
        key: 0 for block in images for key in block.keys if key == REMOTE or key[-1] == "file"
    }
    if elsewhere and _FETCHED.search(words):
        return elsewhere
    left = [block for block in blocks if block.keys[0] not in known]
    if _NOTHING.search(words):
        return _first(block for block in left if block.is_alone)
    if _IN_RESULT.search(words):
        return _first(one for one in left if one.place == RESULT and one.kind != "image")
    if not _TYPE.search(words):
        return {}
    named, allowed = _types(refusal.words)
    named &= {str(type_of(block.value)) for block in blocks}
    return _first(
        block
        for block in left
        if (type_of(block.value) in named or not named) and type_of(block.value) not in allowed
    )


def _first(blocks: Iterable[Block]) -> dict[Any, Any]:
    """Return the facts of the first kind among ``blocks``: odd ones first, images last."""
    found = list(blocks)
    for kind in ("", "file", "audio", "video", "image"):
        if keys := {block.keys[0]: 0 for block in found if block.kind == kind}:
            return keys
    return {}


def _at(refusal: Refusal, blocks: list[Block]) -> list[Block]:
    """Return those of ``blocks`` at the path that the error names; else all."""
    if not refusal.path:
        return blocks
    blocks = [block for block in blocks if block.path[0] == refusal.path[0]]
    numbers = [step for step in refusal.path if isinstance(step, int)]
    inside = [block for block in blocks if [block.item] == numbers[:1]]
    placed = [block for block in inside if block.path[3:4] == tuple(numbers[1:2])]
    return placed or inside or blocks


def _types(words: str) -> tuple[set[str], set[str]]:
    """Return the names that ``words`` quote: of refused types, and of types that are allowed."""
    said, *known = _ALLOWED.split(_ECHO.split(words, maxsplit=1)[0], maxsplit=1)
    known += [found[1] for found in _LITERALS.finditer(words)]
    return set(_QUOTED.findall(said)), set(_QUOTED.findall("".join(known)))
