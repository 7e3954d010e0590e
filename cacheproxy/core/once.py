"""A property that is found once for each object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

_T = TypeVar("_T")


class once(Generic[_T]):  # noqa: N801 - it is used like property
    """Like ``functools.cached_property``, which up to Python 3.11 has one lock for all objects.

    With it the reactor waited 0.5 s for a thread that read a large body. Found twice at the same
    time by two threads, both find the same. From the second time on it is a plain attribute: a
    property that looks whether it knows its value takes a call each time, and a request's are
    asked for eighty times.
    """

    def __init__(self, find: Callable[[Any], _T]) -> None:
        self.__doc__ = find.__doc__
        self._find = find

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> _T: ...
    def __get__(self, instance: object | None, owner: type) -> _T | Self:
        if instance is None:
            return self
        found = instance.__dict__[self._name] = self._find(instance)
        return found
