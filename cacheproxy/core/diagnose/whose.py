"""Whose requests a proposed rule edits: never all programs of a library, because one has a date."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce

from cacheproxy.core.diagnose.volatile import Field, Step
from cacheproxy.core.document.compare import common_prefix
from cacheproxy.core.privacy.credentials import hide_text
from cacheproxy.core.prompt.client import Client, client_of, is_shared
from cacheproxy.core.prompt.request import Request

_HEAD, _TELLING = 80, 16
"""Characters of a system text's beginning, at most; letters and digits of it, at least."""


class SharedError(Exception):
    """Nothing tells the program from others that use its library; the message says so."""


def whose_field(
    field: Field, steps: Sequence[Step], whose: Callable[[Request], Client | None]
) -> Client | None:
    """Return the one client in whose requests the field was seen, if there is but one.

    One that has but a library's name is told by the beginning of its system text as well; raises
    SharedError where that tells nothing.
    """
    requests = [request for one in field.sightings for request in steps[one.step]]
    seen = set(map(whose, requests))
    client = seen.pop() if len(seen) == 1 else None
    if client is None or client.name != client_of(requests[0]) or not is_shared(requests[0]):
        return client
    head = _head(requests)
    if sum(map(str.isalnum, head)) < _TELLING or not head.isprintable() or hide_text(head) != head:
        raise SharedError(
            f"{client.name} is the name of a library, and no system text tells this program from "
            "others that use it"
        )
    return replace(client, must_begin=head)


def who(client: Client | None) -> str:
    """Return a comment on whose requests a rule is for, if that is not plain to see."""
    if client is None:
        return "# For every client: no name tells whose requests these are.\n"
    if client.must_begin:
        return (
            f"# {client.name} is a library's name: for system texts that begin with head alone.\n"
        )
    return ""


def _head(requests: Sequence[Request]) -> str:
    """Return the words on the first line with which the system text of all of them begins."""
    heads = [one.opening[0][0].lstrip()[:_HEAD] if one.opening else "" for one in requests]
    shared = reduce(lambda one, other: one[: common_prefix(one, other)], heads)
    line, end, _ = shared.partition("\n")
    is_cut = len(shared) == _HEAD or any(len(head) > len(shared) for head in heads)
    return line[: line.rfind(" ") + 1].rstrip() if is_cut and not end else line.rstrip()
