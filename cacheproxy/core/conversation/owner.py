"""The owner of a request, known by all of its fields that may name a person or a right.

Owners are distinguished, never identified. A gateway, a vendor or a company names its people in a
header of its own, so the words in a field's name decide, not a list of known names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from secrets import token_bytes
from typing import Any, NamedTuple
from urllib.parse import unquote_plus

from cacheproxy.core.http1.headers import AGENT_ID, SESSION_ID
from cacheproxy.core.prompt.request import Request

SHARED_IDS = (b"session-id", b"session_id", b"x-session-id", b"x-session-affinity")
"""Headers in which several clients name a session; others have one of their own."""
PEER = "peer"
"""Name in ``owner_ignores`` for the address of the connection itself."""
_KEY = token_bytes(32)
"""Key of all digests, which have no meaning outside of this process."""
_METADATA, _USER = "metadata", "user_id"
_SESSION = "_session_"
_NO_PERSON = re.compile(
    r"user-?agent|^sec-.*|access-control-.*|browser-access"
    r"|(?:max|min|num|count|limit|budget)[a-z-]{,32}tokens?"
)
"""Parts of names that mean a program or a number, in one spelling (lower case, ``-`` between the
words)."""
_NO_PERSONS_ID = re.compile(
    r".*(?:session|conversation|thread|parent|agent|turn|window|message|request|response|trace"
    r"|span|correlation|idempoten(?:cy|ce|t)|dedup(?:lication)?|affinity|routing|cache|shard"
    r"|partition|batch|job|task|run)-?(?:keys?|ids?|affinity)"
)
"""Whole names that mean a conversation or a request, in the same spelling."""
_PERSON = re.compile(
    r"auth|token|secret|cookie|passw|credential|bearer|jwt|oidc|saml|assert|claim|cert|api-?key"
    r"|user|mail|account|login|logon|sign-?in|identi|principal|subject|subscri|impersonat|behalf"
    r"|organi[sz]|tenant|project|customer|consumer|compan|member|employee|person|student|patient"
    r"|owner|operator|partner|profile|workspace|licen[cs]e|device|machine|install|requestor"
    r"|requester|signature|entitle|privilege|participant|contact|human|client-?(?:id|dn|cn|name)"
    r"|client-s-dn|(?<!api-)client$"
    r"|(?:display|full|real|first|last|remote|screen|given|family|preferred|common)-?names?"
    r"|\b(?:[a-z]*keys?|key[a-z]*|org[a-z]*|teams?[a-z]*|groups?|roles?|dept|department|division"
    r"|sub|uid|upn|vk|dn|cn|acct|pin|otp|sso|iam|realm|scopes?|seats?|badge|staff|actor|caller"
    r"|phone|mobile|nick|guest|who[a-z]*|sid|pat|permissions?|grants?|tickets?|crew|squad|unit"
    r"|access|holder|creator|viewer|player|vendor|merchant|party|tribe|desk)\b"
)
_ADDRESS = re.compile(r"^forwarded$|forwarded-for\b|\baddr(?:ess)?\b|\b(?:client|real|remote)?ip\b")
_PORT = re.compile(r"((?:\b\d{1,3}\.){3}\d{1,3}|\]):\d+\b")
"""A port behind an address; the groups of an IPv6 address look like ports, but for its brackets."""


class Names(NamedTuple):
    """The names of a request's headers by which its owner or session may be known."""

    persons: tuple[Any, ...] = ()  #: headers that may name a person or a right
    addresses: tuple[Any, ...] = ()  #: headers with the address of the client
    sessions: tuple[bytes, ...] = ()  #: headers that may name a session, in order of precedence
    agents: tuple[bytes, ...] = ()  #: headers that may name a subagent


@lru_cache(maxsize=1024)
def names_person(name: str) -> bool:
    """Whether a header, query value or member called ``name`` may name a person or a right."""
    plain = name.lower().replace("_", "-").replace(".", "-")
    if _NO_PERSONS_ID.fullmatch(plain):
        return False
    return _PERSON.search(_NO_PERSON.sub("", plain)) is not None


@lru_cache(maxsize=256)
def names_in(names: tuple[bytes, ...]) -> Names:
    """Return ``names`` of headers by kind; cached, since a client sends the same ones each turn."""
    sessions = [name for name in names if SESSION_ID.fullmatch(name)]
    sessions += [name for name in SHARED_IDS if name in names]
    agents = tuple([name for name in names if AGENT_ID.fullmatch(name)])
    persons, addresses = [], []
    for name in names:
        text = name.decode("latin-1").replace("_", "-")
        if name in sessions or name in agents:
            continue
        if names_person(text):
            persons.append(name)
        elif _ADDRESS.search(text):
            addresses.append(name)
    return Names(tuple(persons), tuple(addresses), tuple(sessions), agents)


class Owners:
    """The recognition of owners. ``ignores``: names of fields to leave out, in any spelling."""

    def __init__(self, ignores: Iterable[str] = ()) -> None:
        self.ignores = frozenset(name.lower().replace("_", "-") for name in ignores)

    def of(self, request: Request, *, by_address: bool = False) -> bytes:
        """Return a keyed digest of the fields that may name the owner of ``request``; b"" if none.

        ``by_address``: whether addresses count, too. They may change within a session, but nothing
        else distinguishes two people whose clients name neither them nor a session.
        """
        names = names_in(tuple(request.by_name))
        found: list[tuple[Any, Any]] = []
        if names.persons:
            found += self._values(request, names.persons)
        if "?" in request.target:
            found += self._in_query(request.target)
        document = request.document
        if document is not None and (members := _members_in(tuple(document.value))):
            found += self._in_body(members, document.value)
        if by_address:
            found += self._addresses(request, names.addresses)
        if not found:
            return b""
        text = repr(found).encode("utf-8", "surrogatepass")
        return blake2b(text, key=_KEY, digest_size=16).digest()

    def counts(self, name: str) -> bool:
        """Whether the field called ``name`` counts."""
        return not self.ignores or name.lower().replace("_", "-") not in self.ignores

    def _values(self, request: Request, names: tuple[bytes, ...]) -> list[tuple[Any, Any]]:
        """Return all values of the headers called ``names``, those of one name in their order."""
        if self.ignores:
            names = tuple([name for name in names if self.counts(name.decode("latin-1"))])
        known = request.by_name
        if len(known) == len(request.headers):
            return [(name, known[name]) for name in sorted(names)]
        each = [(name.lower(), value) for name, value in request.headers if name.lower() in names]
        return sorted(each, key=lambda one: one[0])

    def _in_query(self, target: str) -> list[tuple[Any, Any]]:
        pairs = [pair.partition("=") for pair in re.split("[&;]", target.partition("?")[2])]
        named = [(unquote_plus(name).lower(), value) for name, _, value in pairs]
        return sorted([one for one in named if self.counts(one[0]) and names_person(one[0])])

    def _in_body(self, names: tuple[str, ...], body: dict[str, Any]) -> list[tuple[Any, Any]]:
        found: list[tuple[Any, Any]] = []
        for name in names:
            value = body[name]
            if name != _METADATA:
                if isinstance(value, (str, int)):
                    found.append((name, value))
            elif isinstance(value, dict):
                for inner in _members_in(tuple(value)):
                    said = value[inner]
                    if inner == _USER and isinstance(said, str):
                        said = _without_session(said)
                    if isinstance(said, (str, int)):
                        found.append((inner, said))
        return [one for one in found if self.counts(one[0])] if self.ignores else found

    def _addresses(self, request: Request, names: tuple[bytes, ...]) -> list[tuple[Any, Any]]:
        """Return the addresses that a gateway reports, else the connection's."""
        found = self._values(request, names)
        if not found:
            host = request.peer
            return [(PEER, host)] if host and self.counts(PEER) else []
        return [(name, _PORT.sub(r"\1", value.decode("latin-1"))) for name, value in found]


EVERYTHING = Owners()
"""The recognition of owners by all fields."""


def peer_address(host: str) -> str:
    """Return the address ``host`` of a connection, "" for this machine's own."""
    return "" if host.startswith(("127.", "::1", "::ffff:127.")) else host


@lru_cache(maxsize=256)
def _members_in(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of a body's members that may name a person, and ``metadata``, which has more."""
    return tuple(sorted(name for name in names if name == _METADATA or names_person(name)))


@lru_cache(maxsize=256)
def _without_session(user: str) -> str:
    """Return ``metadata.user_id`` of Claude Code without the session in it.

    It is a JSON object, or ``user_…_account_…_session_<uuid>``.
    """
    if user.startswith("{"):
        try:
            parsed = json.loads(user)
        except (ValueError, RecursionError):
            return user
        parsed.pop("session_id", None)
        return json.dumps(parsed, sort_keys=True)
    return user.rpartition(_SESSION)[0] or user
