"""Rules that need code, and how others' rules become ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

from cacheproxy.core.document.edits import Edit
from cacheproxy.core.prompt.client import EVERY, Client
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.checks import RuleError, check_fields
from cacheproxy.core.rules.rule import Rule

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class CodeRule:
    """A rule that needs code.

    ``find`` obeys the contract of the hook cacheproxy_normalize. It is called in a thread with a
    deadline, unless it is ``quick``. Raises RuleError.
    """

    name: str  #: as in Rule
    why: str  #: as in Rule
    find: Callable[[Request, Request | None], Iterable[Edit]]
    """Called with the request and the one before; returns its edits."""
    default: bool = True  #: as in Rule
    literals: tuple[str, ...] = ()  #: as in Rule
    needs_previous: bool = False  #: whether it looks at the request before
    client: Client | None = None  #: as in Rule

    def __post_init__(self) -> None:
        check_fields(self, "default", "needs_previous")
        if not callable(self.find):
            raise RuleError(f"rule {self.name!r}: 'find' must be a function")

    def edits(self, request: Request, previous: Request | None = None) -> Iterable[Edit]:
        """Return what ``find`` says."""
        return self.find(request, previous)


Normalizer = Rule | CodeRule
"""What the core folds a request through, one by one, by name."""


class CompiledRule(NamedTuple):
    """A rule, and what is asked of it before each request."""

    rule: Normalizer  #: itself
    literals: frozenset[str]  #: the texts without which it cannot fire; none: it always may
    is_here: bool  #: whether it runs where the bytes are relayed: it is ours, or ``quick``


def compiled(rules: Iterable[Normalizer]) -> tuple[CompiledRule, ...]:
    """Return ``rules`` so that a request asks nothing of those that cannot fire."""
    return tuple(
        CompiledRule(rule, frozenset(rule.literals), type(rule) is Rule or is_quick(rule))
        for rule in rules
    )


def client_name(rule: Normalizer) -> str:
    """Return for which client ``rule`` is; ``*``: for all."""
    return EVERY if rule.client is None else rule.client.name


def quick(function: _Function) -> _Function:
    """Mark a plugin's function as one that never takes long, whatever the body.

    It is called where the bytes are relayed, without a thread and without a deadline: each
    millisecond that it takes, all streams wait. To be put on a ``CodeRule``'s function, and under
    ``@hookimpl``.
    """
    function.quick = True  # type: ignore[attr-defined]
    return function


def is_quick(rule: Normalizer) -> bool:
    """Whether the function of ``rule`` is marked as ``quick``."""
    return type(rule) is CodeRule and getattr(rule.find, "quick", False) is True


def settled(rule: Any, client: Client | None = None) -> Rule | CodeRule:
    """Return ``rule`` as one of the two classes above, whose fields stay what they are now.

    ``client``: whose it is if it does not say so itself. Raises RuleError.
    """
    said: Client | None = getattr(rule, "client", None)
    client = client if said is None else said
    if type(rule) is Rule:
        return rule if client is said else replace(rule, client=client)
    literals = tuple(rule.literals) if isinstance(rule.literals, list) else rule.literals
    if type(rule) is CodeRule:
        return replace(rule, literals=literals, client=client)
    return CodeRule(
        name=rule.name,
        why=rule.why,
        find=rule.edits,
        default=rule.default,
        literals=literals,
        needs_previous=rule.needs_previous,
        client=client,
    )
