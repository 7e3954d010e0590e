"""Attributes that are computed at their first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")


class Once(Generic[_T]):
    """A property that is worked out once, and is from then on as cheap as any attribute.

    Up to Python 3.11 functools.cached_property has one lock for all objects of a class: the
    reactor would wait for a thread that reads a large body. A property that looks into the
    object's dict itself costs a call each time, 0.15 µs, and a request is asked 60 times.
    """

    def __init__(self, work: Callable[[Any], _T]) -> None:
        self._work = work
        self._name = work.__name__
        self.__doc__ = work.__doc__

    def __get__(self, instance: Any, owner: type) -> _T:
        """Work it out; two threads at once may both do so."""
        if instance is None:
            return self  # type: ignore[return-value]  # the class is asked, by who documents it
        value: _T
        value = instance.__dict__[self._name] = self._work(instance)
        return value
