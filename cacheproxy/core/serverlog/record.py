"""The content of a server's log: its requests, and the server itself."""

from __future__ import annotations

from dataclasses import dataclass

from cacheproxy.core.conversation.verdict import Judgement


@dataclass(slots=True)
class LoggedRequest:
    """One request as the log tells it, written while it is read; None where it does not say.

    ``line``: its first line's number in the log. ``prompt``, ``reused``, ``evaluated``,
    ``output``: tokens. ``derived``: prompt and reuse were reckoned, not logged (how, says
    core.llama_log).
    ``kept``: the part of what its slot held that the prompt starts with, 0 to 1.
    ``shared``: the longest prefix of it, in tokens, that any slot or cached prompt still held.
    ``seconds``: prompt time. ``recomputed``: the server could not go back in its memory and
    computed all anew (sliding window, recurrent models). ``reason``: of the verdict, for people.
    """

    line: int
    task: int
    slot: int
    prompt: int | None = None
    reused: int | None = None
    evaluated: int | None = None
    output: int | None = None
    derived: bool = False
    kept: float | None = None
    shared: int | None = None
    seconds: float | None = None
    recomputed: bool = False
    truncated: bool = False
    error: str | None = None
    verdict: Judgement = Judgement.UNKNOWN
    reason: str = ""


@dataclass(slots=True)
class ServerFacts:
    """What the log says of the server itself.

    ``lines``: of llama-server, whatever they say. ``ram_off``: it said that the prompt cache in
    RAM (``--cache-ram``) is off; that it is on is not believed (llama.cpp issue 22127).
    ``ram_prompts``, ``ram_mib``, ``ram_limit_mib``: as last told; ``evicted``: entries dropped.
    """

    lines: int = 0
    ram_off: bool = False
    ram_prompts: int | None = None
    ram_mib: float | None = None
    ram_limit_mib: float | None = None
    evicted: int = 0
