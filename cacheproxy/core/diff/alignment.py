"""The alignment of two prompts: which message corresponds to which.

Messages after the last one of the earlier prompt are the new turn, not a change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from typing import NamedTuple

from cacheproxy.core.dialects.content import Part, Segment, is_mark
from cacheproxy.core.dialects.dialects import LISTS
from cacheproxy.core.diff.text import alike
from cacheproxy.core.prompt.prompt import Prompt

Pair = tuple[int, int]
_LONG = 20
"""Characters of an equal block, at least, to show that two messages are versions of one."""


class AlignedMessage(NamedTuple):
    """One message, or a whole system text outside the messages."""

    path: str  #: JSON pointer in its request
    blocks: tuple[Segment, ...]  #: its texts, in their order
    key: tuple[str, str]  #: its role, as the request spells it, and its text

    @property
    def text(self) -> str:
        """The message's texts, joined."""
        return self.key[1]


@dataclass(frozen=True, slots=True)
class Alignment:
    """The messages of a turn matched with those of the next, by their indexes."""

    pairs: tuple[Pair, ...]  #: (before, after) of matched messages, in order
    gone: tuple[int, ...]  #: earlier messages without a counterpart
    new: tuple[int, ...]  #: later messages without a counterpart that precede a matched one
    moved: tuple[Pair, ...]  #: (before, after) of messages that moved behind the appended ones
    appended: tuple[int, ...]  #: messages that the turn added at the end


def units(prompt: Prompt, *, system: bool) -> list[AlignedMessage]:
    """Return the system texts of ``prompt`` (with ``system``) or its other messages; no tools."""
    wanted = [
        segment
        for segment in prompt.segments
        if segment.part is not Part.TOOLS and (segment.part is Part.SYSTEM) is system
    ]
    return [_aligned_message(path, blocks) for path, blocks in groupby(wanted, key=_message_path)]


def _aligned_message(path: str, blocks: Iterable[Segment]) -> AlignedMessage:
    found = list(blocks)
    texts = tuple(block for block in found if not is_mark(block))
    return AlignedMessage(path, texts, (found[0].role, "".join(block.text for block in texts)))


def _message_path(segment: Segment) -> str:
    """Return the path of a segment's message (``/messages/3``) or system text (``/system``)."""
    steps = segment.path.split("/")
    return "/".join(steps[: 3 if steps[1] in LISTS else 2])


def align(
    before: Sequence[AlignedMessage], after: Sequence[AlignedMessage], *, fixed: bool = False
) -> Alignment:
    """Return the messages of two turns, matched. ``fixed``: lists that do not grow (system)."""
    ours, theirs = [unit.key for unit in before], [unit.key for unit in after]
    pairs = match(ours, theirs, lambda i, j: _are_versions(before[i], after[j], fixed=fixed))
    moved = [] if fixed else list(_moved_to_end(pairs, before, after))
    pairs = pairs[: len(pairs) - len(moved)]
    matched = {j for _, j in (*pairs, *moved)}
    last = max((j for _, j in pairs), default=-1)
    kept = {i for i, _ in (*pairs, *moved)}
    free = [j for j in range(len(after)) if j not in matched]
    return Alignment(
        tuple(pairs),
        tuple(i for i in range(len(before)) if i not in kept),
        tuple(j for j in free if j < last or fixed),
        tuple(moved),
        tuple(j for j in free if j > last and not fixed),
    )


def match(
    ours: Sequence[object], theirs: Sequence[object], same: Callable[[int, int], bool]
) -> list[Pair]:
    """Return pairs of indexes: of equal items, and in the gaps of items that ``same`` accepts.

    In a gap that ends before both lists do and has no such items, equal numbers of items are paired
    in order: they were rewritten in place.
    """
    start = 0
    while start < min(len(ours), len(theirs)) and ours[start] == theirs[start]:
        start += 1
    matcher = SequenceMatcher(None, ours[start:], theirs[start:], autojunk=False)
    pairs: list[Pair] = [(i, i) for i in range(start)]
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        rows, columns = range(i1 + start, i2 + start), range(j1 + start, j2 + start)
        if tag == "equal":
            pairs += zip(rows, columns, strict=True)
            continue
        found = list(_in_order(rows, columns, same))
        is_tail = rows.stop == len(ours) or columns.stop == len(theirs)
        if not found and not is_tail and len(rows) == len(columns):
            found = list(zip(rows, columns, strict=True))
        pairs += found
    return pairs


def _in_order(rows: range, columns: range, same: Callable[[int, int], bool]) -> Iterator[Pair]:
    """Yield the pairs that ``same`` accepts: each row with the next such column, if any is left."""
    free = columns.start
    for i in rows:
        for j in range(free, columns.stop):
            if same(i, j):
                yield i, j
                free = j + 1
                break


def _are_versions(one: AlignedMessage, other: AlignedMessage, *, fixed: bool) -> bool:
    """Whether both have one role and, unless ``fixed``, a long block in common or like texts."""
    if one.key[0] != other.key[0]:
        return False
    if fixed:
        return True
    texts = {block.text for block in one.blocks if len(block.text) >= _LONG}
    return any(block.text in texts for block in other.blocks) or alike(one.text, other.text)


def _moved_to_end(
    pairs: Sequence[Pair], before: Sequence[AlignedMessage], after: Sequence[AlignedMessage]
) -> Iterator[Pair]:
    """Yield the last pairs if the messages that the turn added are between them and the others.

    A block that a client always puts last looks like this. So do messages inserted before the last
    ones, which is why a message of the model or a tool never counts as moved.
    """
    count = 0
    for i, j in reversed(pairs):
        at_end = (len(before) - i, len(after) - j) == (count + 1, count + 1)
        if not at_end or before[i].key[0] not in ("user", "system", "developer"):
            break
        count += 1
    first = pairs[-count - 1][1] + 1 if count < len(pairs) else 0
    if count and pairs[-count][1] - first >= count:
        yield from pairs[-count:]
