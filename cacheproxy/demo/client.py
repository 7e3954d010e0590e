"""The demo's HTTP client: one request, one answer, one connection."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from cacheproxy.core.conversation.usage import Usage, usage_of
from cacheproxy.core.placement.role_error import STATUSES, refuses_late
from cacheproxy.demo.errors import DemoError
from cacheproxy.replay.wire import checked_url, connect, explain, reason_of

__all__ = ["Client", "Cost", "checked_url", "explain"]

MEND = "start the model server there, or leave out --upstream to use the embedded one."


@dataclass(frozen=True, slots=True)
class Cost:
    """What one request cost: the server's own figures, and seconds until the whole answer.

    ``refused``: the status of a refusal, where the server cannot take the order of the messages.
    """

    usage: Usage
    wall: float
    refused: int | None = None


@dataclass(frozen=True, slots=True)
class Client:
    """Speaks to the server at ``url``; the path of an API is added to it.

    Raises DemoError from every method for whatever keeps it from a good answer.
    """

    url: str
    headers: dict[str, str] = field(default_factory=dict)

    def post(self, path: str, body: dict[str, Any]) -> Cost:
        """Send ``body`` and return what it cost."""
        data = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        start = time.perf_counter()
        status, answer = self._exchange("POST", path, data)
        wall = time.perf_counter() - start
        if status in STATUSES and refuses_late(answer):
            return Cost(Usage(), wall, status)
        if status != 200:
            raise DemoError(explain(status, answer, self.url + path, body["model"]))
        try:
            return Cost(usage_of(json.loads(answer)), wall)
        except ValueError:
            raise DemoError(f"{self.url}{path} answered with something that is no JSON.") from None

    def models(self) -> list[str]:
        """Return the names of the models the server offers; none if it does not say."""
        status, answer = self._exchange("GET", "/v1/models", None)
        try:
            names = [model["id"] for model in json.loads(answer)["data"]] if status == 200 else []
        except (ValueError, LookupError, TypeError):
            return []
        return [name for name in names if isinstance(name, str)]

    def serves(self, path: str) -> bool:
        """Return whether the server knows ``path``, an API that takes a POST."""
        status, _ = self._exchange("POST", path, b"{}")
        return status not in (404, 405, 501)

    def _exchange(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        connection = connect(self.url, MEND)
        headers = {"Content-Type": "application/json", "Connection": "close"} | self.headers
        try:
            connection.request(method, urlsplit(self.url).path + path, body, headers)
            response = connection.getresponse()
            return response.status, response.read()
        except HTTPException as error:
            raise DemoError(
                f"{self.url} answers, but not in HTTP ({type(error).__name__}): "
                "give --upstream the model server's URL."
            ) from None
        except OSError as error:
            raise DemoError(f"No answer from {self.url} ({reason_of(error)}): {MEND}") from None
        finally:
            connection.close()
