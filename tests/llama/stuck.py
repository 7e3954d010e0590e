"""A server that is asked until it takes a request, as the proxy does it, by adaptations alone."""

from __future__ import annotations

import json
from collections import Counter

from cacheproxy.core.adapt.adaptation import Refusal
from cacheproxy.core.document.edits import apply
from cacheproxy.core.prompt.request import Request

from .replay import post

RESENDS = 6


class Server:
    """What is remembered of one server, and how often it was asked."""

    def __init__(self, url, *adaptations):
        self.url, self.adaptations = url, adaptations
        self.remembered = {each.name: {} for each in adaptations}
        self.count = Counter()

    def ask(self, request):
        """Return None where it takes the request, else the refusal."""
        status, answer = post(self.url, request.target, request.body)
        if status < 400:
            return None
        said = json.loads(answer).get("error", {})
        return Refusal(status, said.get("message", "")[: 8 << 10], str(said.get("type", "")))

    def edited(self, request, needs):
        """Return the request as it is sent with ``needs``."""
        for each in self.adaptations:
            if need := needs.get(each.name):
                assert each.edits(request, need) == each.edits(request, need)
                body = apply(request.document, each.edits(request, need))
                request = Request(request.method, request.target, request.headers, body)
        return request

    def send(self, request):
        """Return the last refusal, or None, and the request as it was sent last."""
        needs = {
            each.name: need
            for each in self.adaptations
            if (need := each.needed(request, self.remembered[each.name]))
        }
        for _ in range(RESENDS + 1):
            sent = self.edited(request, needs)
            self.count["sent"] += 1
            refusal = self.ask(sent)
            if refusal is None:
                for name, need in needs.items():
                    self.remembered[name].update(need.facts)
                return None, sent
            for each in self.adaptations:
                need = self.found(each, refusal, request, needs.get(each.name))
                if need is not None and need != needs.get(each.name):
                    needs[each.name] = need
                    break
            else:
                break
        return refusal, sent

    def found(self, each, refusal, request, need):
        if not hasattr(each, "probes"):
            return each.refused(refusal, request, need)
        probes, answer = each.probes(refusal, request, need), None
        try:
            probe = next(probes)
            while True:
                self.count["probes"] += 1
                answer = self.ask(probe)
                probe = probes.send(answer)
        except StopIteration as end:
            return end.value
