"""A plugin's answer on which conversation a request belongs to, checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from cacheproxy.core.prompt.client import Client
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.fold import Foreign, GivenUpError, kind_of

MOST_ID = 256
"""Characters of ``client/id``: it is kept for each session, and its client is logged."""


@dataclass(frozen=True, slots=True)
class SessionHook:
    """One plugin's hook cacheproxy_session."""

    plugin: str  #: its name
    ask: Callable[[Request], object]
    """Calls it; in a thread with a deadline, unless it is ``quick``."""
    client: Client | None = None  #: whose requests it is asked about; None: everybody's

    @property
    def name(self) -> str:
        """What it is called in the log and counted under."""
        return f"{self.plugin}: cacheproxy_session"

    def is_for(self, request: Request) -> bool:
        """Whether ``request`` is one of its client (law 10)."""
        return self.client is None or self.client.sent(request)

    def answer(self, request: Request) -> tuple[str | None, str | None]:
        """Return what the plugin says (``client/id``, ``id``, None), and what was wrong with it.

        It is to be asked only where ``is_for`` says so. Whatever it raises is its own failure; only
        a KeyboardInterrupt goes on, which may be the user's.
        """
        try:
            said = self.ask(request)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # law 4; whatever its class
            return None, f"raised {kind_of(error)}"
        if said is None or said == "":
            return None, None
        if not isinstance(said, str):
            return None, f"returned {kind_of(said)} instead of text"
        if len(said) > MOST_ID or not said.isprintable():
            return None, f"returned text that is no id: at most {MOST_ID} printable characters"
        if self.client is not None and not self.client.is_every and "/" not in said:
            said = f"{self.client.name}/{said}"
        return said, None


async def asked(
    hooks: Iterable[SessionHook], request: Request
) -> tuple[str | None, list[tuple[str, str]]]:
    """Return the first answer to whose conversation it is, and what went wrong before, by hook."""
    problems: list[tuple[str, str]] = []
    for hook in hooks:
        if not hook.is_for(request):
            continue
        if getattr(hook.ask, "quick", False) is True:
            answer, problem = hook.answer(request)
        else:
            try:
                shown = replace(request, memo=None)
                answer, problem = await Foreign(hook.name, partial(hook.answer, shown))
            except GivenUpError as error:
                answer, problem = None, str(error) or None
        if problem is not None:
            problems.append((hook.name, problem))
        if answer is not None:
            return answer, problems
    return None, problems
