"""A request taken through one adaptation, as the proxy does it."""

from functools import partial

from cacheproxy.core.adapt.adaptation import NOTHING, make


def adapted(one, request, remembered=NOTHING):
    """The request as it goes on, what it needed, and what was edited."""
    need = one.needed(request, remembered)
    if need is None:
        return request, None, None
    after, report = make(one.name, request, partial(one.edits, request, need))
    return after, need, report
