"""Rules that need code, and the conversion of plugins' rules into ours."""

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
    """A rule whose edits are found by a function.

    ``find`` obeys the contract of the hook cacheproxy_normalize. It is called in a thread with a
    deadline, unless it is ``quick``. Raises RuleError for fields that cannot work.
    """

    name: str  #: as in Rule
    why: str  #: as in Rule
    find: Callable[[Request, Request | None], Iterable[Edit]]
    """Function called with the request and the one before, which returns the edits."""
    default: bool = True  #: as in Rule
    literals: tuple[str, ...] = ()  #: as in Rule
    needs_previous: bool = False  #: whether ``find`` reads the session's previous request
    client: Client | None = None  #: as in Rule

    def __post_init__(self) -> None:
        check_fields(self, "default", "needs_previous")
        if not callable(self.find):
            raise RuleError(f"rule {self.name!r}: 'find' must be a function")

    def edits(self, request: Request, previous: Request | None = None) -> Iterable[Edit]:
        """Return the edits that ``find`` returns."""
        return self.find(request, previous)


Normalizer = Rule | CodeRule
"""A rule of either kind, as the fold takes it."""


class CompiledRule(NamedTuple):
    """A rule with the facts that the fold needs for each request."""

    rule: Normalizer  #: the rule
    literals: frozenset[str]  #: texts of which a body must have one; if empty, any body will do
    is_here: bool  #: whether the rule runs in the reactor's thread: it is a Rule, or ``quick``


def compiled(rules: Iterable[Normalizer]) -> tuple[CompiledRule, ...]:
    """Return ``rules`` for the fold, with their literals as sets."""
    return tuple(
        CompiledRule(rule, frozenset(rule.literals), type(rule) is Rule or is_quick(rule))
        for rule in rules
    )


def client_name(rule: Normalizer) -> str:
    """Return the name of the client that ``rule`` is for, ``*`` if it is for all."""
    return EVERY if rule.client is None else rule.client.name


def quick(function: _Function) -> _Function:
    """Mark a plugin's function as one that never takes long, whatever the body.

    The proxy calls it in the thread that relays the bytes, without a deadline: all streams wait
    while it runs. The decorator goes on a ``CodeRule``'s function, and under ``@hookimpl``.
    """
    function.quick = True  # type: ignore[attr-defined]
    return function


def is_quick(rule: Normalizer) -> bool:
    """Whether the function of ``rule`` is marked as ``quick``."""
    return type(rule) is CodeRule and getattr(rule.find, "quick", False) is True


def settled(rule: Any, client: Client | None = None) -> Rule | CodeRule:
    """Return ``rule`` as a Rule or CodeRule, so that later changes to the original have no effect.

    ``client``: the client of a rule that names none. Raises RuleError.
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
