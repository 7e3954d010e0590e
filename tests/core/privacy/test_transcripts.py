"""Who may ask, what their browsers are told, and what of a request may be stored: transcripts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.conversation.session import session_of
from cacheproxy.core.privacy.access import Access
from cacheproxy.core.privacy.credentials import hide, hide_text
from cacheproxy.core.privacy.origins import origins
from cacheproxy.core.privacy.redact import redact_headers, redact_target
from cacheproxy.core.prompt.request import Request
from tests import transcript

PAGE = "http://localhost:3000"
TOKEN = "correct horse"
KEYS = [
    *("sk-ant-api03-7f3a9bcc41d0_x-y", "sk-or-v1-7f3a9bcc41d07f3a9bcc41d0"),
    *("sk-proj-A7f3a9bcc41d0", "ghp_" + "a1B2" * 9, "github_pat_" + "a1_B2" * 10),
    *("glpat-" + "a1B2-" * 4, "hf_" + "a1B2" * 9, "gsk_" + "a1B2" * 12),
    *("xoxb-" + "123456-" * 4 + "a", "AKIA" + "A1B2" * 4, "AIza" + "a1B2_" * 7),
    "eyJhbGciOi1J9.eyJzdWIiOiIx.a1b2c3d4e5f6g7h8i9",
]
OPEN, SHARED, LOCKED = Access(), Access(origins=origins([PAGE])), Access(token=TOKEN)


def fields(**headers):
    """All values of each header."""
    found = {name.replace("_", "-").encode(): value for name, value in headers.items()}

    def values(name):
        value = found.get(name, [])
        return [each.encode() for each in ([value] if isinstance(value, str) else value)]

    return values


def refusal(access=OPEN, address="127.0.0.1", path="/v1/messages", method="POST", http10=False,
            **headers):  # fmt: skip
    found = {"method": method.encode(), "path": path.encode(), "http10": http10}
    return access.refusal(fields(**headers), address, **found)


def status(access=OPEN, address="127.0.0.1", **asked):
    """Of the answer that refuses a request, or None."""
    found = refusal(access, address, **asked)
    return found and found.status


def local(access=OPEN, **asked):
    """The same, for one that names us as it should."""
    return status(access, **{"host": "localhost:8081", **asked})


def message(access=OPEN, **asked):
    return refusal(access, **{"host": "localhost", **asked}).message


def cookie(access):
    return b"=".join(access.cookie).decode()


def said(access=SHARED, path="/v1/messages", method="POST", **headers):
    """The headers of the answer by name, and whether it is a preflight's."""
    sharing = access.sharing(method.encode(), path.encode(), fields(**headers))
    assert len(dict(sharing.headers)) == len(sharing.headers)
    found = {name.decode().lower(): value.decode() for name, value in sharing.headers}
    return found, sharing.is_preflight


def kept(name):
    """What is stored of a header of this name: in any spelling the same."""
    found = set()
    for spelling in {name, name.upper(), name.title()}:
        header = (spelling.encode("latin-1", "replace"), b"v \xff")
        ((stored, value),) = redact_headers((header,))
        found.add((stored == header[0], value == header[1]))
        assert {stored, value} <= {*header, b"redacted"}
    ((has_name, has_value),) = found
    return "all" if has_value else "its name" if has_name else "nothing"


@pytest.mark.parametrize("surface", ["access", "origins", "stored", "credentials"])
def test_all_that_is_said(surface):
    transcript.holds(f"{surface}.txt", globals())


@given(st.text("abkey=&?;#/@:.%1", max_size=60))
def test_redacting_a_target_twice_changes_nothing(target):
    """What was read back from disk is redacted once more."""
    once = redact_target(target)
    assert redact_target(once) == once


@given(st.lists(st.tuples(st.binary(max_size=30), st.binary(max_size=30))))
def test_redacting_headers_twice_changes_nothing(headers):
    """Neither in number nor in order."""
    once = redact_headers(tuple(headers))
    assert redact_headers(once) == once
    assert len(once) == len(headers)


@given(
    st.lists(st.sampled_from([*KEYS, "sk-", "AKIA", " ", "\\n", "é", '"', "a", "1"]), max_size=8)
)
def test_hiding_twice_changes_nothing(parts):
    """Whatever stands beside whatever, and never the length."""
    data = "".join(parts).encode()
    once = hide(data)
    assert hide_text(data.decode()) == once.decode()
    assert hide(once) == once
    assert len(once) == len(data)


@given(st.binary(max_size=60), st.sets(st.binary(min_size=16, max_size=20), max_size=2))
def test_any_bytes_may_be_looked_at(data, known):
    """A body is what the client sent."""
    assert len(hide(data, known)) == len(data)


def test_sessions_are_named_as_before(captured):
    """Nothing that tells one conversation from another is lost."""
    for one in (each for requests in captured.values() for each in requests):
        head = redact_target(one.target), redact_headers(one.headers)
        stored = Request(one.method, *head, one.body)
        came = Request(one.method, one.target, one.headers, one.body)  # others introduced ``one``
        assert session_of(stored) == session_of(came)
        assert stored.dialect == one.dialect
