"""Reads a running proxy's pages in threads, as long as the screen is shown."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from http.client import HTTPException, HTTPResponse
from typing import Any, Self
from urllib.parse import quote, urlencode

from cacheproxy.http_client import CommandError, NoAnswerError, Site, SiteAnswer, reason_of, refused

Json = dict[str, Any]
Ask = Callable[[str], Any]  #: returns the JSON value at a path of the proxy; raises CommandError

_PAGES = "/_cacheproxy/"
_BREAKS = 3
_SOON, _AGAIN = 0.1, 2.0
"""Seconds before the next try: after the stream of events ended, and without an answer."""
_LONGEST = 4096  #: bytes read of an error response
_SILENCE = 30.0
"""Seconds without an event after which the proxy counts as gone: it sends one every 10 s."""


@dataclass(frozen=True, slots=True)
class Watched:
    """The proxy's last answers: the JSON of its pages."""

    data: Json = field(default_factory=dict)  #: figures of the window
    page: Json = field(default_factory=dict)  #: first page of the list of conversations
    breaks: tuple[Json, ...] = ()
    """The last turns that lost the cache, the latest first; ``known`` of each has its details."""
    one: Json | None = None  #: the opened conversation
    trouble: str = ""  #: why the proxy does not answer now, "" if it does


class Watcher:
    """Reads the pages one by one, and remembers those that cannot have changed."""

    def __init__(self, ask: Ask, window: str) -> None:
        self._ask = ask
        self.window = window
        self._breaks: tuple[Json, ...] = ()
        self._last: tuple[Any, Any] = None, None
        self._known: dict[tuple[Any, Any], Json] = {}

    def all(self) -> Watched:
        """Read all pages once; raises CommandError."""
        return self.watched(self._ask(f"{_PAGES}data?window={self.window}"), "", None)

    def watched(self, data: Json, search: str, opened: str | None) -> Watched:
        """Read the pages that go with ``data``, the figures; raises CommandError.

        ``search``: text in a conversation's names; ``opened``: id of the opened conversation.
        """
        query = urlencode({"window": self.window, "search": search})
        page = self._ask(f"{_PAGES}conversations?{query}")
        one = opened and self._ask(f"{_PAGES}conversations/{quote(opened, safe='')}")
        last = data.get("last_break"), data.get("rules")
        if last != self._last:
            rows = self._ask(f"{_PAGES}requests?filter=breaks")["requests"][:_BREAKS]
            rows = [row for row in rows if row["at"] >= data["overview"]["start"]]
            if last[1] != self._last[1]:  # a rule may have been added or removed
                self._known = {}
            known = {(row["number"], row["at"]): self._details(row) for row in rows}
            self._known = known
            self._breaks = tuple(row | {"known": known[row["number"], row["at"]]} for row in rows)
            self._last = last
        return Watched(data, page, self._breaks, one or None)

    def _details(self, row: Json) -> Json:
        """Return the details of a break, empty if the proxy no longer remembers the request."""
        found = self._known.get((row["number"], row["at"]))
        if found is None:
            try:
                found = self._ask(f"{_PAGES}break/{row['number']}") if row["number"] else {}
            except CommandError:
                found = {}
        return found


class Watch:
    """Keeps ``latest`` up to date; calls ``changed``, in a thread of its own, after each update."""

    def __init__(self, site: Site, teller: Watcher, changed: Callable[[], None]) -> None:
        self.latest = Watched(trouble=f"Asking {site.url} …")
        self._site = site
        self._teller = teller
        self._changed = changed
        self._data: Json = {}
        self._trouble = ""
        self._look: tuple[str, str | None] = ("", None)
        self._due = threading.Event()
        self._now = threading.Event()
        self._left = threading.Event()

    def __enter__(self) -> Self:
        for work in (self._listen, self._ask):
            threading.Thread(target=work, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the threads; one that waits for an answer ends with the process."""
        self._left.set()
        self._due.set()
        self._now.set()

    def look(self, search: str, opened: str | None) -> None:
        """Read the conversations that match ``search``, and ``opened``, at once and from now on."""
        if (search, opened) != self._look:
            self._look = search, opened
            self._due.set()
            self._now.set()

    def _listen(self) -> None:
        """Read the proxy's events, again after each end or failure; one thread's work."""
        while not self._left.is_set():
            try:
                if self._read():
                    self._left.wait(_SOON)
                    continue
                self._trouble = self._no_answer("it has ended the connection")
            except CommandError as error:
                self._trouble = str(error)
            except NoAnswerError as error:
                self._trouble = self._no_answer(str(error))
            except (OSError, ValueError, HTTPException) as error:
                self._trouble = self._no_answer(reason_of(error))
            self._due.set()
            self._left.wait(_AGAIN)

    def _no_answer(self, why: str) -> str:
        """Return the sentence that no proxy answers, with the reason."""
        return f"No cacheproxy answers at {self._site.url} ({why}); trying again."

    def _read(self) -> bool:
        """Read events to the end; return whether figures came. Raises what ``_listen`` catches."""
        has_reported = False
        path = f"{_PAGES}live?window={self._teller.window}"
        with closing(self._site.connect(_SILENCE)) as connection:
            response = self._site.begin(connection, "GET", path, None)
            if response.status != 200:
                answer = SiteAnswer(response.status, response.read(_LONGEST))
                raise CommandError(refused(answer, self._site.url))
            for name, text in events(response):
                if name == "data":
                    self._data, self._trouble, has_reported = json.loads(text), "", True
                elif name == "trouble":
                    self._trouble = f"The proxy says: {json.loads(text)['why']}"
                else:  # finished requests: their figures follow
                    continue
                self._due.set()
        return has_reported

    def _ask(self) -> None:
        """Read the pages after an event or ``look``, once a second at most; a thread's work."""
        while not self._left.is_set():
            self._due.wait()
            self._due.clear()
            self._now.clear()
            if self._trouble or not self._data:
                self.latest = replace(self.latest, trouble=self._trouble or self.latest.trouble)
            else:
                try:
                    self.latest = self._teller.watched(self._data, *self._look)
                except (CommandError, KeyError, TypeError, AttributeError) as error:
                    self.latest = replace(self.latest, one=None, trouble=f"{error}")
            self._changed()
            self._now.wait(1.0)  # least seconds between two readings of the conversations


def events(response: HTTPResponse) -> Iterator[tuple[str, bytes]]:
    """Yield each event's name and data, which the proxy writes on one line each."""
    name = ""
    while line := response.readline():
        kind, _, text = line.strip().partition(b": ")
        if kind == b"event":
            name = text.decode()
        elif kind == b"data":
            yield name, text
