"""What a turn that broke says where it leaves the turn before, for the user who asks for it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import chain, dropwhile, islice

from cacheproxy.core.conversation.divergence import parting
from cacheproxy.core.conversation.lanes import Pair
from cacheproxy.core.dialects.segment import Segment
from cacheproxy.core.diff.lines import DiffLine, side_by_side
from cacheproxy.core.document.compare import common_prefix
from cacheproxy.core.privacy.credentials import hide_text
from cacheproxy.core.privacy.redact import carried
from cacheproxy.core.prompt.prompt import Prompt, PromptOrder, prompt_of

_ONWARD = 8000
"""Characters behind the difference that are looked at: more than is shown."""
_LONGEST = 1000
"""Characters of a credential: one that is cut short might not be known as one."""

_MOST_SEGMENTS = 1000


@dataclass(frozen=True, slots=True)
class Texts:
    """The lines around the first difference."""

    was: tuple[DiffLine, ...]  #: as they were
    now: tuple[DiffLine, ...]  #: as they are


def texts_of(pair: Pair, order: PromptOrder) -> Texts | None:
    """Return the lines in which the prompts of ``pair`` differ first, None if nowhere.

    Without credentials. It takes some ten milliseconds with prompts of 2 MB.
    """
    before, after = prompt_of(pair.before, order), prompt_of(pair.after, order)
    if before is None or after is None:
        return None
    left = parting(before, after)
    if left.was is None and left.now is None:
        return None
    known = frozenset(
        chain.from_iterable(
            carried(request.headers, request.target) for request in (pair.before, pair.after)
        )
    )
    same = min(left.was_at, left.now_at)  # they may begin at other places of their texts
    was = _from(before, left.was, left.was_at, same, known)
    return quoted(was, _from(after, left.now, left.now_at, same, known))


def quoted(was: str, now: str) -> Texts | None:
    """Return the lines of two excerpts; None where they do not differ, but for a credential."""
    if was == now:
        return None
    left, right = side_by_side(was, now, common_prefix(was, now))
    return Texts(tuple(left), tuple(right))


def _from(
    prompt: Prompt, segment: Segment | None, at: int, same: int, known: Collection[bytes]
) -> str:
    """Return the text of ``segment`` from ``same`` before ``at``, and what follows that."""
    if segment is None:
        return ""
    text, most = "", at + _ONWARD + _LONGEST
    for one in islice(dropwhile(lambda one: one is not segment, prompt.segments), _MOST_SEGMENTS):
        text += one.text[:most]
        if len(text) >= most:
            break
    return hide_text(text[:most], known)[at - same : at + _ONWARD]
