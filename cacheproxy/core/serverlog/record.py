"""The content of a server's log: its requests, and the server itself."""

from __future__ import annotations

from dataclasses import dataclass

from cacheproxy.core.conversation.verdict import Judgement


@dataclass(slots=True)
class LoggedRequest:
    """One request as the log tells it, written while it is read; None where it does not say."""

    line: int  #: its first line's number in the log
    task: int  #: the server's number for it
    slot: int  #: the server's slot it ran in
    prompt: int | None = None  #: tokens
    reused: int | None = None  #: tokens
    evaluated: int | None = None  #: tokens
    output: int | None = None  #: tokens
    derived: bool = False  #: prompt and reuse were reckoned, not logged (how, says core.serverlog)
    kept: float | None = None  #: the part of what its slot held that the prompt starts with, 0 to 1
    shared: int | None = None
    """The longest prefix of it, in tokens, that any slot or cached prompt still held."""
    seconds: float | None = None  #: prompt time
    recomputed: bool = False
    """The server could not go back in its memory and computed all anew (sliding window, recurrent
    models)."""
    truncated: bool = False  #: the server cut the prompt, or shifted what it held
    error: str | None = None  #: what the server refused it with
    verdict: Judgement = Judgement.UNKNOWN  #: what became of the cache
    reason: str = ""  #: of the verdict, for people


@dataclass(slots=True)
class LogFacts:
    """What the log says of the server itself."""

    lines: int = 0  #: of llama-server, whatever they say
    ram_off: bool = False
    """It said that the prompt cache in RAM (``--cache-ram``) is off; that it is on is not believed
    (llama.cpp issue 22127)."""
    ram_prompts: int | None = None  #: prompts in that cache, as last told
    ram_mib: float | None = None  #: MiB that they take, as last told
    ram_limit_mib: float | None = None  #: MiB that they may take, as last told
    evicted: int = 0  #: entries dropped from it
