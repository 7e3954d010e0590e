"""The client that sent a request, recognized by its user agent, headers and prompt."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from cacheproxy.core.document.search import SearchPattern, SlowPatternError
from cacheproxy.core.prompt.request import Request

EVERY = "*"
"""The name that stands for all clients."""
UNNAMED = "client"
"""The name of a client whose user agent has no name."""

# Libraries and gateways: any client may use them.
_LIBRARIES = (
    ("openai/", "openai-sdk"),
    ("asyncopenai/", "openai-sdk"),
    ("anthropic/", "anthropic-sdk"),
    ("asyncanthropic/", "anthropic-sdk"),
    ("litellm/", "litellm"),
)
# Names of libraries, runtimes and tools in the user agents of programs that set none.
_SHARED = frozenset(
    {
        *(name for _, name in _LIBRARIES),
        *("python-httpx", "python-requests", "python-urllib", "python", "aiohttp", "httpx"),
        *("node", "node-fetch", "undici", "axios", "got", "bun", "deno", "ai", "ai-sdk"),
        *("go-http-client", "okhttp", "java", "java-http-client", "apache-httpclient", "ktor"),
        *("reqwest", "hyper", "ureq", "ruby", "faraday", "guzzlehttp", "dart", "dotnet"),
        *("curl", "wget", "mozilla", "langchain", "ollama-python", "ollama-js"),
    }
)
_SDK = re.compile(r"[\w$]{1,64}/(?:JS|Python) \d")
"""User agent of OpenAI's and Anthropic's SDKs: a class's name, which minified programs shorten."""
_PYTHON = ("openai/python", "asyncopenai/python")
"""OpenAI's SDK for Python, to which any byte is a sign of life: httpx waits for bytes. Its helper
for Chat Completions would take its id from an event of ours."""
_PRODUCT = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,19}")
_NAME = re.compile(r"[a-z][a-z0-9._-]{0,19}")
_PLAIN = re.compile(r"[A-Za-z0-9 #:;=,_'<>!/-]*")
_LEAST = 8
"""Plain characters at the beginning of a line's pattern: they are found in a tenth of the time."""
_LOOKED_AT = 512
"""Characters of a system text that are searched for its head."""
_MOST_CACHED = 1 << 18
"""Characters of a system text, at most, that is cached with its search's result."""
_FENCE = re.compile(r"(?m)^ {0,3}(?P<mark>`{3,}|~{3,})(?P<rest>[^\n]*)$")


class ClientError(ValueError):
    """A client that cannot be recognized: bad name, mark or pattern."""


@dataclass(frozen=True, slots=True)
class Client:
    """A client, and the marks by which its requests are recognized. One of them is enough.

    ``head`` and ``lines`` are searched only in the system text before the first message of a user,
    and only if the user agent does not name another one of ``Clients``: text of a user or a tool
    does not identify a client. Raises ClientError.
    """

    name: str
    """Name in sessions (``claude``, ``codex``): a lower-case word. A request whose user agent has
    this name is the client's; so is every request if the name is ``*``."""
    agents: tuple[str, ...] = ()
    """Prefixes of its user agent, compared without case: ``("claude-cli/",)``."""
    headers: tuple[str, ...] = ()  #: names of headers that it alone sends
    head: tuple[str, ...] = ()
    """Plain texts; its system text begins with one of them, after white space."""
    lines: tuple[str, ...] = ()
    """Python regexes; one of them matches from the beginning of a line of its system text, outside
    of fenced code. Each begins with eight or more plain characters."""
    must_begin: str = ""
    """Text with which its system text must begin besides any other mark, if its name is a
    library's that other programs use."""
    advice: tuple[tuple[str, str, str], ...] = field(default=(), repr=False, compare=False)
    """Advice on turns that broke, in rows: the cause as in verdicts (``tools_changed``,
    ``model_changed``, ``system message hoisted``), the owner of a setting, and the setting with its
    effect. Cause ``left during prefill``: the client left before the answer began."""
    title: str = field(default="", repr=False, compare=False)
    """Name for people (``Claude Code``); "": the name."""
    start: str = field(default="", repr=False, compare=False)
    """Instruction to start it with the proxy, in one line: ``base URL {url}/v1``. ``{url}`` is the
    proxy's, ``{option}`` the one with which our commands find it. "": see ``cacheproxy env``."""
    sends_late: str = field(default="", repr=False, compare=False)
    """Occasions on which it sends late system messages, as a sentence; "": none."""
    has_setup: bool = field(default=False, repr=False, compare=False)
    """Whether ``cacheproxy env`` knows it: its package has the hook cacheproxy_setup."""
    heeds_comments: bool = field(default=False, repr=False, compare=False)
    """Whether any byte of a stream, as of a comment, is a sign of life to it, or only an event."""
    waits_for_head: bool = field(default=False, repr=False, compare=False)
    """Whether it waits for a response head without a time limit, so that it needs none of ours."""
    reads_messages: bool = field(default=False, repr=False, compare=False)
    """Whether it finds a prompt too long only by JSON in the message of a deferred error."""
    names_agents: bool = field(default=False, repr=False, compare=False)
    """Whether each of its subagents names the session it works for, so that no others are any."""
    slow: float | None = field(default=None, init=False, repr=False, compare=False)
    """Seconds of a line's search that was too slow, after which no line is searched any more."""

    def __post_init__(self) -> None:
        if type(self.name) is not str or not (self.is_every or _NAME.fullmatch(self.name)):
            raise ClientError(
                "a client's name must be a lower-case word of up to 20 characters, or '*' for "
                "every client"
            )
        for marks in (self.agents, self.headers, self.head, self.lines):
            if type(marks) is not tuple or not all(type(mark) is str and mark for mark in marks):
                raise ClientError(f"client {self.name!r}: its marks must be tuples of texts")
        rows = self.advice if type(self.advice) is tuple else ((),)
        if not all(len(row) == 3 and all(type(text) is str for text in row) for row in rows):
            raise ClientError(f"client {self.name!r}: its advice is rows of three texts")
        words = (self.title, self.start, self.sends_late)
        if not all(type(word) is str and word.isprintable() for word in words):
            raise ClientError(f"client {self.name!r}: what is said of it is lines of text")
        if self.is_every and (self.agents or self.headers or self.head or self.lines):
            raise ClientError("the client '*' means every client, and may have no marks")
        object.__setattr__(self, "agents", tuple(agent.lower() for agent in self.agents))
        for line in self.lines:
            self._check_line(line)

    def __hash__(self) -> int:
        """Hash the name, which differs between clients: every rule hashes its client."""
        return hash(self.name)

    @property
    def is_every(self) -> bool:
        """Whether the name stands for all clients."""
        return self.name == EVERY

    @property
    def called(self) -> str:
        """The client's name for people."""
        return self.title or self.name

    def sent(self, request: Request) -> bool:
        """Whether ``request`` is this client's: determined once, whatever is edited later."""
        known = request.clients
        told = known.get(self)
        if told is None:
            told = self.marked(request)
            told = known[self] = self.reads(request) if told is None else told
        return told

    def marked(self, request: Request) -> bool | None:
        """Whether user agent or headers mark ``request`` as its own; None: ``reads`` decides."""
        told = self._marked(request)
        return None if told and self.must_begin else told

    def reads(self, request: Request) -> bool:
        """Whether the body marks ``request`` as this client's, if ``marked`` returned None."""
        opening = request.opening
        if self.must_begin and not any(_begins(texts, self.must_begin) for texts in opening):
            return False
        return bool(self.must_begin and self._marked(request)) or any(map(self._opens, opening))

    def speaks(self, agent: str) -> bool:
        """Whether the user agent ``agent`` names this client."""
        return _named(agent) == self.name or agent.lower().startswith(self.agents)

    def _marked(self, request: Request) -> bool | None:
        """Return ``marked`` without regard to ``must_begin``."""
        if self.name in (EVERY, request.speaker) or self.speaks(agent_of(request)):
            return True
        if any(name.lower().encode("latin-1") in request.by_name for name in self.headers):
            return True
        is_told = request.speaker or request.dialect is None or not (self.head or self.lines)
        return False if is_told else None

    def _opens(self, texts: list[str]) -> bool:
        """Whether system text is this client's, by the head of its first text or by a line."""
        return _begins(texts, self.head) or (bool(self.lines) and any(map(self._has_line, texts)))

    def _has_line(self, text: str) -> bool:
        if self.slow is not None:
            return False
        has_line = _has_line if len(text) <= _MOST_CACHED else _has_line.__wrapped__
        try:
            return has_line(self.lines, text)
        except SlowPatternError as error:
            object.__setattr__(self, "slow", error.seconds)
            return False

    def _check_line(self, pattern: str) -> None:
        if len(_plain_beginning(pattern)) < _LEAST:
            raise ClientError(
                f"client {self.name!r}: a line must begin with {_LEAST} or more plain characters"
            )
        try:
            SearchPattern(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise ClientError(f"client {self.name!r}: bad pattern: {error}") from None


class Clients(tuple[Client, ...]):  # noqa: SLOT001 (it remembers user agents)
    """The known clients: those whose packages are installed."""

    def introduce(self, request: Request) -> Request:
        """Return ``request``, with ``speaker`` set to the client that its user agent names."""
        agent = request.by_name.get(b"user-agent", b"")
        known = self._speakers.get(agent)
        return request.spoken_by(self._speaker(agent) if known is None else known)

    def name_of(self, request: Request) -> str:
        """Return the name of the client of ``request``, by user agent, header or prompt."""
        if not request.speaker:
            for client in self:
                if client.name != EVERY and client.sent(request):
                    return client.name
        return client_of(request)

    def named(self, name: str) -> Client | None:
        """Return the client called ``name``, or None."""
        return next((one for one in self if one.name == name), None)

    def starts(self, url: str, option: str) -> dict[str, str]:
        """Return instructions to start clients with the proxy: a line by the clients' names.

        ``url``: the proxy's; ``option``: the one by which commands find it, "" for none.
        """
        names: dict[str, list[str]] = {}
        for client in self:
            if client.start:
                line = client.start.replace("{url}", url).replace("{option}", option)
                names.setdefault(line, []).append(client.called)
        return {", ".join(called): line for line, called in names.items()}

    def _speaker(self, spelled: bytes) -> str:
        agent = spelled.decode("latin-1")
        speaking = () if _is_shared(agent) else (one.name for one in self if one.speaks(agent))
        found = next(iter(speaking), "")
        if len(self._speakers) < 256:  # user agents that are remembered, at most
            self._speakers[spelled] = found
        return found

    @cached_property
    def _speakers(self) -> dict[bytes, str]:
        """Clients' names by user agent: a cache of ``_speaker``."""
        return {}


NOBODY = Clients()
"""The clients without any package installed."""


def client_of(request: Request) -> str:
    """Return the short name of the client, by its user agent."""
    return request.speaker or _named(agent_of(request))


def agent_of(request: Request) -> str:
    """Return the user agent, "" for none."""
    return request.by_name.get(b"user-agent", b"").decode("latin-1")


def heeds_comments(request: Request, client: Client | None) -> bool:
    """Whether a comment is a sign of life to the sender of ``request``: ``client``, if known."""
    if client is not None:
        return client.heeds_comments
    return agent_of(request).lower().startswith(_PYTHON)


def is_shared(request: Request) -> bool:
    """Whether the user agent names only a library, as that of all programs that use it."""
    return _is_shared(agent_of(request))


def _begins(texts: Sequence[str], with_: str | tuple[str, ...]) -> bool:
    return texts[0][:_LOOKED_AT].lstrip().startswith(with_)


def _is_shared(agent: str) -> bool:
    return _named(agent) in _SHARED or _SDK.match(agent) is not None


@lru_cache(maxsize=64)
def _named(agent: str) -> str:
    lowered = agent.lower()
    for start, name in _LIBRARIES:
        if lowered.startswith(start):
            return name
    product = _PRODUCT.match(agent)
    return product[0].lower() if product else UNNAMED


def _plain_beginning(pattern: str) -> str:
    """Return the plain text with which each match of ``pattern`` begins.

    A character before a quantifier, which may be missing in a match, is left out.
    """
    found = _PLAIN.match(pattern)
    plain = found[0] if found else ""
    is_quantified = pattern[len(plain) : len(plain) + 1] in ("?", "*", "+", "{")
    return plain[:-1] if plain and is_quantified else plain


@lru_cache(maxsize=16)
def _has_line(patterns: tuple[str, ...], text: str) -> bool:
    """Whether one of ``patterns`` matches a line; cached, as each turn has the same text."""
    return any(
        search.match(text, at)
        for pattern, search in ((one, SearchPattern(one).within(len(text))) for one in patterns)
        for at in lines_outside_code(text, _plain_beginning(pattern))
    )


def lines_outside_code(text: str, beginning: str) -> Iterator[int]:
    """Yield the offsets of lines of ``text``, outside of code, that start with ``beginning``.

    The text is searched once, and for code only if there is such a line.
    """
    blocks: Iterator[tuple[int, int]] | None = None
    start = end = 0
    at = text.find(beginning)
    while at >= 0:
        if at == 0 or text[at - 1] == "\n":
            blocks = _blocks(text) if blocks is None else blocks
            while end <= at and start < len(text):
                start, end = next(blocks, (len(text), len(text)))
            if start <= at < end:
                at = text.find(beginning, end)
                continue
            yield at
        at = text.find(beginning, at + 1)


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of fenced code blocks, fences included.

    Source: CommonMark 0.31, section 4.5. A fence is closed by one of the same character that is
    as long or longer and has nothing behind it; a block that is never closed extends to the end.
    """
    opened, start = "", 0
    for fence in _FENCE.finditer(text):
        mark, rest = fence["mark"], fence["rest"].strip()
        if not opened:
            # The info string behind a fence of backticks has no backticks; tildes are allowed.
            is_fence = mark[0] == "~" or "`" not in rest
            opened, start = (mark, fence.start()) if is_fence else ("", 0)
        elif mark.startswith(opened) and not rest:
            yield start, fence.end()
            opened = ""
    if opened:
        yield start, len(text)
