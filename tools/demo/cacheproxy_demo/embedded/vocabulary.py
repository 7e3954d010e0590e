"""A byte-level BPE vocabulary, learnt from a given text with the standard library alone.

The scheme is GPT-2's: text is cut into words, each word is a sequence of bytes spelt as printable
characters, and the most frequent neighbouring pair is merged again and again. A vocabulary learnt
from the prompts' own text has about one token for each word, like a real model's.
"""

from __future__ import annotations

import heapq
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from cacheproxy.core.template.rendering import BYTE_SPELLING

Pair = tuple[str, str]

BEGIN_OF_TEXT = "<|endoftext|>"
END_OF_TURN = "<|im_end|>"
CONTROL = (BEGIN_OF_TEXT, "<|im_start|>", END_OF_TURN)
"""Tokens that mark the beginning or end of turns."""

USER_DEFINED = (
    "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>",
)  # fmt: skip
"""Tokens that are ordinary text, but are never split."""

WORD = re.compile(
    r"'s|'t|'re|'ve|'m|'ll|'d"
    r"| ?[^\W\d_]+"
    r"| ?\d+"
    r"| ?(?:[^\s\w]|_)+"
    r"|\s+(?!\S)|\s+"
)
"""GPT-2's word splitter, as far as Python's ``re`` can express it.

llama.cpp splits by ``\\p{L}`` and ``\\p{N}``. Where the two disagree (rare digits), a merge is
learnt that is never used, and nothing else happens.
"""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The tokens of a model, in the order of their ids, and the merges that make them."""

    merges: tuple[Pair, ...]  #: pairs that become one token, in the order of merging
    ordinary: tuple[str, ...]  #: all tokens but the special ones, in the order of their ids

    @property
    def special(self) -> tuple[str, ...]:
        """The tokens after the ordinary ones: first the control tokens, then the user-defined."""
        return CONTROL + USER_DEFINED

    @property
    def tokens(self) -> tuple[str, ...]:
        """All tokens; a token's index is its id."""
        return self.ordinary + self.special

    def id_of(self, special: str) -> int:
        """Return the id of a special token. Raises ValueError for any other."""
        return len(self.ordinary) + self.special.index(special)


def learn_vocabulary(text: str, limit: int) -> Vocabulary:
    """Learn at most ``limit`` merges from ``text``; fewer if every word of it is one token by then.

    100 KB of text take about half a second. The result depends on the arguments alone.
    """
    merges = learn_merges(Counter(WORD.findall(text)), limit)
    ordinary = dict.fromkeys(BYTE_SPELLING)
    ordinary.update(dict.fromkeys(left + right for left, right in merges))
    return Vocabulary(merges=tuple(merges), ordinary=tuple(ordinary))


def learn_merges(words: Counter[str], limit: int) -> list[Pair]:
    """Return ``limit`` byte-pair merges for words with their counts, the most frequent first.

    Pairs of equal frequency come in the order of their spelling, so that the result is the same on
    every machine.
    """
    learner = _Learner(words)
    merges: list[Pair] = []
    while len(merges) < limit and (pair := learner.most_frequent()) is not None:
        merges.append(pair)
        learner.merge(pair)
    return merges


class _Learner:
    """Words as sequences of symbols, with the current count and places of every pair."""

    def __init__(self, words: Counter[str]) -> None:
        # A lone surrogate has no UTF-8, and would not reach the server either.
        self._words = [[BYTE_SPELLING[b] for b in w.encode("utf-8", "replace")] for w in words]
        self._counts = list(words.values())
        self._pairs: Counter[Pair] = Counter()
        self._where: defaultdict[Pair, set[int]] = defaultdict(set)
        for index, word in enumerate(self._words):
            self._add(index, word)
        self._heap = [(-count, pair) for pair, count in self._pairs.items()]
        heapq.heapify(self._heap)

    def most_frequent(self) -> Pair | None:
        """Return the pair to merge next, None if every word is one symbol."""
        while self._heap:
            negative, pair = heapq.heappop(self._heap)
            # Outdated counts are skipped: the new ones were pushed as well.
            if self._pairs.get(pair) == -negative:
                return pair
        return None

    def merge(self, pair: Pair) -> None:
        """Merge ``pair`` into one symbol in every word."""
        changed: set[Pair] = set()
        for index in self._where.pop(pair):
            old = self._words[index]
            new = _joined(old, pair)
            changed.update(self._remove(index, old))
            self._words[index] = new
            changed.update(self._add(index, new))
        for other in changed:
            if count := self._pairs[other]:
                heapq.heappush(self._heap, (-count, other))
            else:
                del self._pairs[other]

    def _add(self, index: int, word: list[str]) -> Iterable[Pair]:
        """Count the pairs of ``word``, the one at ``index``, and return them."""
        pairs = list(itertools.pairwise(word))
        for pair in pairs:
            self._pairs[pair] += self._counts[index]
            self._where[pair].add(index)
        return pairs

    def _remove(self, index: int, word: list[str]) -> Iterable[Pair]:
        # ``_where`` is not pruned: a word looked at in vain is cheaper than an exact index.
        """Uncount the pairs of ``word``, formerly at ``index``, and return them."""
        pairs = list(itertools.pairwise(word))
        for pair in pairs:
            self._pairs[pair] -= self._counts[index]
        return pairs


def _joined(word: list[str], pair: Pair) -> list[str]:
    """Return ``word`` with each occurrence of ``pair``, from the left, merged into one symbol."""
    out: list[str] = []
    at = 0
    while at < len(word):
        if tuple(word[at : at + 2]) == pair:
            out.append(pair[0] + pair[1])
            at += 2
        else:
            out.append(word[at])
            at += 1
    return out
