"""The demo's client: it measures a request's cost, and asks for a server's models and APIs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cacheproxy.core.adapt.late import refuses_late
from cacheproxy.core.adapt.refusal import STATUSES
from cacheproxy.core.conversation.usage import Usage, usage_of
from cacheproxy.http_client import CommandError, NoAnswerError, Site, SiteAnswer, explain


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one request."""

    usage: Usage  #: the server's own figures
    wall: float  #: seconds until the end of the answer
    refused: int | None = None
    """HTTP status of the refusal, if the server does not accept a late system message."""


@dataclass(frozen=True, slots=True)
class DemoClient:
    """The client of one server. Each method raises CommandError if there is no usable answer."""

    url: str  #: the server's root URL
    headers: Mapping[str, str] = field(default_factory=dict)  #: headers of each request

    def post(self, path: str, body: dict[str, Any]) -> Cost:
        """Send ``body`` and return its cost."""
        data = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        answer = self._ask(path, data)
        if answer.status in STATUSES and refuses_late(answer.body):
            return Cost(Usage(), answer.seconds, answer.status)
        if answer.status != 200:
            raise CommandError(explain(answer, self.url + path, body["model"], "--upstream"))
        value = answer.json()
        if value is None:
            raise CommandError(f"{self.url}{path} gave an answer that is not JSON.")
        return Cost(usage_of(value), answer.seconds)

    def models(self) -> list[str]:
        """Return the names of the server's models; none if it does not list them."""
        answer = self._ask("/v1/models")
        try:
            names = [model["id"] for model in answer.json()["data"]] if answer.status == 200 else []
        except (LookupError, TypeError):
            return []
        return [name for name in names if isinstance(name, str)]

    def serves(self, path: str) -> bool:
        """Return whether the server knows ``path``, an API that takes a POST."""
        return self._ask(path, b"{}").status not in (404, 405, 501)

    def _ask(self, path: str, body: bytes | None = None) -> SiteAnswer:
        """Return the answer to a GET, or with ``body`` to a POST; raises CommandError for none."""
        site = Site(self.url, self.headers)
        try:
            return site.get(path) if body is None else site.post(path, body)
        except NoAnswerError as error:
            raise CommandError(
                f"No answer from {self.url} ({error}): start the model server there, or leave out "
                "--upstream to use the embedded one."
            ) from None
