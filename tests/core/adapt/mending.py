"""A request that is refused and edited, by one adaptation, as the loop does it."""

import json

from cacheproxy.core.adapt.adaptation import Refusal
from cacheproxy.core.document.edits import apply
from cacheproxy.testing import request

PATHS = {
    "messages": "/v1/messages",
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "ollama": "/api/chat",
}


def refusal(words, status=400, *path):
    return Refusal(status, words, path=path)


def mended(adaptation, api, body, *refusals):
    """The request after each of ``refusals`` in turn, and the facts; None where one heals nothing.

    A turn later, the facts alone make the same of it.
    """
    came, need = request(body, PATHS[api]), None
    for said in refusals:
        one = refusal(said) if isinstance(said, str) else said
        before, need = need, adaptation.refused(one, came, need)
        if need is None or need == before:
            return None, {}
        assert_ends(adaptation, came, one, need)
    edited = apply(came.document, adaptation.edits(came, need))
    return json.loads(edited), dict(need.facts)


def assert_ends(adaptation, came, one, need):
    """A server that refuses everything hears the same request at last."""
    for _ in range(6):
        before, need = need, adaptation.refused(one, came, need)
        if need in (None, before):
            return
    raise AssertionError("it never ends")


def later(adaptation, api, body, facts):
    """The next request, by what is remembered; the same one where nothing is needed."""
    came = request(body, PATHS[api])
    need = adaptation.needed(came, facts)
    return body if need is None else json.loads(apply(came.document, adaptation.edits(came, need)))
