"""The session (conversation) that a request belongs to."""

from __future__ import annotations

import hashlib
import json
import re
from functools import lru_cache
from typing import NamedTuple

from cacheproxy.core.conversation.owner import EVERYTHING, Owners, names_in
from cacheproxy.core.dialects.content import SYSTEM_ROLES, texts_in
from cacheproxy.core.privacy.credentials import hide_text
from cacheproxy.core.prompt.client import client_of
from cacheproxy.core.prompt.request import Request

_TYPED = re.compile(r"[a-z]{2,8}_|[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-")
"""Beginning of an id with its type (``ses_``), or of a UUID of version 7: the time follows, for
days the same, so that only the end distinguishes two ids."""
_RANDOM = re.compile(r"[0-9a-f]{16}(?:-\d+)?|[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f-]{21}")
"""Ids that are random from their beginning: ours, and UUIDs of version 4."""
_HASH = re.compile(r"[0-9a-f]{16}(?:-\d+)?")

DOCTOR = "cacheproxy-doctor"
"""Client name of the requests of ``cacheproxy doctor``, which are no conversation."""
# Clocks, counters, dates and nonces in the text must not make a new session of every turn.
_VOLATILE = re.compile(
    r"(?<![\w.-])[\w.-]*\d[\w.-]*"
    r"|\b(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?|[ap]m"
    r"|jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b",
    re.IGNORECASE,
)
_LOOKED_AT = 4000
"""Characters of each end of a user's text that are hashed. Of a system text only the head is: its
volatile parts (git status, files) come last."""


class Session(NamedTuple):
    """The identity of one conversation."""

    client: str  #: name of the client
    id: str  #: id of the conversation
    owner: bytes = b""
    """Digest of the owner (``Owners.of``): another owner's equal id is another conversation."""

    @property
    def name(self) -> str:
        """Whole name, as on pages and in commands: ``client/3f9a…``."""
        return f"{self.client}/{self.id}"

    @property
    def label(self) -> str:
        """Short name for the log: ``client/`` and a distinctive part of the id.

        For a subagent, the id of the session that it works for comes first.
        """
        return f"{self.client}/{':'.join(map(_short, self.id.split(':')))}"

    @property
    def is_named(self) -> bool:
        """Whether the client named it; else its id is a hash of the conversation's beginning."""
        return not _HASH.fullmatch(self.id)

    @property
    def first(self) -> Session:
        """First of the conversations that begin alike; the store numbers the others."""
        return self if self.is_named else self._replace(id=self.id.partition("-")[0])

    def numbered(self, number: int) -> Session:
        """Return the session with ``number`` of those that begin alike."""
        return self._replace(id=f"{self.first.id}-{number}")


def request_label(request: Request, session: Session | None, turn: int = 0) -> str:
    """Return a request's name in log lines, ``CLIENT/SESSION #N``, as far as it is known."""
    name = client_of(request) if session is None else session.label
    return hide_text(f"{name} #{turn}" if turn else name)


@lru_cache(maxsize=1024)
def _short(name: str) -> str:
    """Return four random characters of an id, or all of a short one.

    A long one without random characters becomes its beginning and four of its digest.
    """
    if _RANDOM.fullmatch(name):
        return name[:4] + name[16:] if _HASH.fullmatch(name) else name[:4]
    plain = re.sub(r"[^A-Za-z0-9_.-]", "", name)
    if _TYPED.match(name):
        return plain[-4:]
    if len(plain) <= 12:  # characters of an id that is shown whole, at most
        return plain
    return f"{plain[:4]}-{hashlib.sha256(name.encode()).hexdigest()[:4]}"


def session_of(
    request: Request,
    answer: str | None = None,
    client: str | None = None,
    owners: Owners = EVERYTHING,
) -> Session:
    """Return the session of ``request``.

    ``answer``: a plugin's result (``client/id``, ``id``). Without it, the id is the first of: a
    session header (any ``x-*-session-id``, then the names that several clients use), with a
    subagent's ``x-*-agent-id`` behind it; ``prompt_cache_key``; the session part of
    ``metadata.user_id``; a hash of client, system text and first user message. ``client``: name of
    the client, if it is known by more than the user agent. ``owners``: recognition of its owner.
    """
    client = client or client_of(request)
    if answer is not None:
        name, slash, identity = answer.partition("/")
        client, identity = (name, identity) if slash and name and identity else (client, answer)
    else:
        named = _from_headers(request) or _from_body(request)
        identity = named or _from_prompt(request, client)
    by_address = _HASH.fullmatch(identity) is not None
    return Session(client, identity, owners.of(request, by_address=by_address))


def parent_of(request: Request, session: Session) -> Session | None:
    """Return the session that the ``session`` of ``request`` works for, if its client names one."""
    named = request.by_name.get(b"x-parent-session-id")
    if not named and ":" not in session.id:
        return None
    return session._replace(id=named.decode("latin-1") if named else session.id.partition(":")[0])


def _from_headers(request: Request) -> str | None:
    values = request.by_name
    names = names_in(tuple(values))
    found = next(filter(None, map(values.get, names.sessions)), None)
    if found is None:
        return None
    agent = next(filter(None, map(values.get, names.agents)), None) if names.agents else None
    return (found if agent is None else b"%b:%b" % (found, agent)).decode("latin-1")


def _from_body(request: Request) -> str | None:
    body = request.json or {}
    key = body.get("prompt_cache_key")
    if isinstance(key, str) and key:
        return key
    metadata = body.get("metadata")
    user = metadata.get("user_id") if isinstance(metadata, dict) else None
    if not isinstance(user, str):
        return None
    # A JSON object, or "user_…_account_…_session_<uuid>".
    try:
        parsed = json.loads(user)
    except (ValueError, RecursionError):
        _, marker, tail = user.rpartition("_session_")
        return tail if marker and tail else None
    session = parsed.get("session_id") if isinstance(parsed, dict) else None
    return session if isinstance(session, str) and session else None


def _from_prompt(request: Request, client: str) -> str:
    dialect, body, system, texts = request.dialect, request.json or {}, [], []
    if dialect is not None:
        system = texts_in(body.get(dialect.head or "system"))
        system = system or dialect.first_texts(body, SYSTEM_ROLES)
        texts = dialect.first_texts(body, ("user",))
    # Clients put <blocks> around the user's words; they come and go (dates, folder trees).
    typed = [text for text in texts if not text.lstrip().startswith("<")]
    digest = hashlib.sha256(client.encode())
    digest.update(_lasting("".join(system[:1])[:_LOOKED_AT]))
    for text in typed or texts:
        is_long = len(text) > 2 * _LOOKED_AT
        digest.update(_lasting(text[:_LOOKED_AT] + text[-_LOOKED_AT:] if is_long else text))
    return digest.hexdigest()[:16]


@lru_cache(maxsize=256)
def _lasting(text: str) -> bytes:
    """Return the part of ``text`` that stays from turn to turn, for a hash."""
    return b"\0" + _VOLATILE.sub("", text).encode("utf-8", "surrogatepass")
