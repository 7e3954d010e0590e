"""A request taken through one adaptation, as the proxy does it."""

from cacheproxy.core.adapt.adaptation import NOTHING, Step, guarded, made


def adapted(one, request, remembered=NOTHING):
    """The request as it goes on, what it needed, and what was edited."""

    def work():
        need = one.needed(request, remembered)
        return (
            Step(request)
            if need is None
            else made(one.name, request, one.edits(request, need), need)
        )

    return guarded(one.name, request, work)
