"""Need: facts about proxy and server from which a client's settings are made."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from cacheproxy.core.kinds.placement import DOES, Late
from cacheproxy.core.privacy.access import TOKEN_HEADER
from cacheproxy.http_client import is_loopback

PLACEHOLDER = "YOUR-MODEL"  #: stands for the name of an unknown model
_NO_KEY = "cacheproxy"  #: API key for servers that need none: clients insist on some key
_SMALL_OUTPUT = 8192
"""Tokens of an answer that every model can give if its context is large enough."""
_TAKEN = ("inline", "user")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")

_DOES: dict[str, str] = {
    **DOES,
    Late.UNKNOWN: "may not accept late system messages where they stand",
}


@dataclass(frozen=True, slots=True)
class Need:
    """The proxy's URL and keys, and the facts known about the model server behind it."""

    url: str  #: the proxy's URL, without a slash at its end
    token: str = ""  #: the proxy's own token, "" for none
    api_key: str = ""  #: the key that the model server requires, "" for none
    model: str | None = None  #: the model's name at the server, None if not known
    context: int | None = None  #: tokens of the server's context window, None if not known
    late: str | None = None
    """What the server does with late system messages, in the page's word; None: not asked."""
    serves: Callable[[str], bool | None] = field(default=lambda _: None, compare=False, repr=False)
    """``need.serves("/v1/responses")`` asks whether the server serves POST there; None: unknown."""
    folder: str = ""
    """Folder of the files that ``Setup.launch`` names, which exist while the client runs; "" if the
    client is not started, and its settings are only printed."""

    proxies: ClassVar[tuple[str, ...]] = (
        "HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"
    )  # fmt: skip
    """Environment variables that name an HTTP proxy for all of a client's requests."""
    exempt: ClassVar[tuple[str, str]] = ("NO_PROXY", "no_proxy")  #: variables that exempt hosts
    provider: ClassVar[str] = "cacheproxy"  #: the proxy's name in a client's file
    patience: ClassVar[int] = 3600
    """Seconds that a client should wait for the first token of an answer, while a long prompt is
    read: as long as the proxy waits for the server (``upstream_silence``)."""
    token_header: ClassVar[str] = TOKEN_HEADER.decode().title()
    """Header for the proxy's token if the usual one carries the model server's key."""

    @property
    def takes_late(self) -> bool | None:
        """Whether the server takes late system messages in place; None if none was asked."""
        return None if self.late is None else self.late in _TAKEN

    @property
    def late_does(self) -> str:
        """Words for what the server does with late system messages; follows the server's name."""
        return _DOES.get(self.late or "", _DOES[Late.UNKNOWN])

    def unproxied(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that exempt the proxy from proxies in ``environ``; {} for none.

        Both spellings are set, since clients differ in which they read; and the loopback names are
        among the hosts, since some clients do not exempt these by themselves.
        """
        if not is_loopback(self.url) or not any(map(environ.get, self.proxies)):
            return {}
        known = ",".join(filter(None, map(environ.get, self.exempt)))
        hosts = dict.fromkeys([*known.replace(" ", "").split(","), *_LOOPBACK])
        return {} if "*" in hosts else dict.fromkeys(self.exempt, ",".join(filter(None, hosts)))

    @property
    def openai(self) -> str:
        """The base URL of the OpenAI APIs."""
        return f"{self.url}/v1"

    @property
    def key(self) -> str:
        """The client's API key: the model server's, else the proxy's token, else a placeholder."""
        return self.api_key or self.token or _NO_KEY

    @property
    def key_variable(self) -> str | None:
        """The variable that a configuration file names instead of the key, None without a key.

        So the file holds no secret, and can be shown and shared.
        """
        return next(iter(self.secrets), None)

    @property
    def needs_header(self) -> bool:
        """Whether the token needs a header of its own, beside the server's key."""
        return bool(self.token and self.api_key)

    @property
    def secrets(self) -> Mapping[str, str]:
        """The variables that a configuration file refers to, with their values."""
        named = {"OPENAI_API_KEY": self.api_key, "CACHEPROXY_TOKEN": self.token}
        return {name: value for name, value in named.items() if value}

    @property
    def key_notes(self) -> tuple[str, ...]:
        """Notes for people, one for each variable that a configuration file refers to."""
        return tuple(
            f"Set the variable {name} in the environment of the client." for name in self.secrets
        )

    def no_header(self, client: str) -> tuple[str, ...]:
        """Return a warning if ``client`` would have to send the token but cannot; else ()."""
        if not self.needs_header:
            return ()
        return (f"{client} cannot send both the proxy's token and the server's key",)

    @property
    def model_name(self) -> str:
        """The model's name, or a placeholder."""
        return self.model or PLACEHOLDER

    @property
    def output(self) -> int | None:
        """Tokens to reserve for an answer: a quarter of the context, 8192 at most; or None."""
        return None if self.context is None else min(_SMALL_OUTPUT, self.context // 4)


def model_and_context(page: Any) -> tuple[str | None, int | None]:
    """Return the health page's model and context window (tokens), None where it lacks one."""
    server = _server(page)
    if server is None:
        return None, None
    model, context = server.get("model"), server.get("context")
    sane = isinstance(model, str) and model.isprintable() and 0 < len(model) <= 200
    positive = isinstance(context, int) and not isinstance(context, bool) and context > 0
    return model if sane else None, context if positive else None


def late(page: Any) -> str | None:
    """Return the health page's word for what the server does with late system messages.

    ``unknown`` if the page has none, None if no server answers the proxy.
    """
    if _server(page) is None:
        return None
    placement = page.get("placement")
    found = placement.get("late") if isinstance(placement, dict) else None
    return found if isinstance(found, str) else "unknown"


def _server(page: Any) -> dict[str, Any] | None:
    """Return the health page's facts about the first upstream's server, None if it has none."""
    upstream = page.get("upstream") if isinstance(page, dict) else None
    server = upstream.get("server") if isinstance(upstream, dict) else None
    return server if isinstance(server, dict) else None


@dataclass(frozen=True, slots=True)
class Launch:
    """How ``cacheproxy run`` starts a client, with settings for this one run."""

    program: str  #: the client's command, searched on PATH
    install: str  #: the command that installs the client
    arguments: tuple[str, ...] = ()  #: options before the user's own
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables beside those of the setup and ``Need.secrets``."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Contents of the files in ``Need.folder``, by file name."""


@dataclass(frozen=True, slots=True)
class Setup:
    """A client's settings: printed by ``cacheproxy env``, passed by ``cacheproxy run``."""

    variables: dict[str, str] = field(default_factory=dict)  #: environment variables to set
    unset: tuple[str, ...] = ()  #: environment variables to remove
    file: str | None = None  #: the file that ``content`` belongs in, None if people type it in
    content: str | None = None  #: part of a configuration file, None if variables are enough
    notes: tuple[str, ...] = ()  #: hints for the user
    warnings: tuple[str, ...] = ()  #: what will not work
    launch: Launch | None = None  #: how to start it, None if ``run`` cannot pass these settings
    limits: Mapping[str, str] = field(default_factory=dict)
    """Environment variables for the client's time-outs; those that the user has set stay."""

    def told(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the variables to set in a shell that has ``environ``: its own limits stay."""
        limits = {name: value for name, value in self.limits.items() if not environ.get(name)}
        return {**self.variables, **limits}

    @classmethod
    def of_json(
        cls, file: str, value: Any, need: Need, *notes: str, launch: Launch | None = None
    ) -> Setup:
        """Return a setup with ``value`` as the JSON text for ``file``, and notes on the keys."""
        return cls(
            file=file, content=cls.json(value), notes=(*need.key_notes, *notes), launch=launch
        )

    @staticmethod
    def json(value: Any) -> str:
        """Return ``value`` as the text of a JSON file."""
        return json.dumps(value, indent=2, ensure_ascii=False) + "\n"

    @staticmethod
    def unexpanded(content: str, name: str) -> str:
        """Return the JSON ``content``, each ``{`` in ``name`` escaped lest a client expand it."""
        written = Setup.quoted(name)[1:-1]
        return content.replace(written, written.replace("{", r"\u007b")) if "{" in name else content

    @staticmethod
    def quoted(text: str) -> str:
        """Return ``text`` as a TOML basic and YAML double-quoted string: a JSON string is both."""
        return json.dumps(text, ensure_ascii=False)
