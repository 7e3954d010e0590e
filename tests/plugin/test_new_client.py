"""A client that nobody has heard of: its package makes it known wherever clients are named."""

import json

import pytest

from cacheproxy.client_setup.checkup import Case
from cacheproxy.client_setup.need import Need
from cacheproxy.core.conversation.session import parent_of
from cacheproxy.core.conversation.verdict import Judgement, Reason, Verdict
from cacheproxy.core.judge.advice import advice
from cacheproxy.core.kinds.profile import UNKNOWN
from cacheproxy.core.prompt.request import Request
from cacheproxy.daemon import banner
from cacheproxy.doctor.facts import look_at_clients
from cacheproxy.doctor.server_checks import late_messages
from cacheproxy.plugin.loading import package_for
from cacheproxy.plugin.packages import Configured
from cacheproxy.record.exchange import Exchange
from cacheproxy.record.logline import lines
from tests.doctor.builders import facts, recorded, seen
from tests.plugin.installing import loaded, others

PROXY = "http://127.0.0.1:8081"
PACKAGE = """
from cacheproxy import Case, Checkup, Finding, FindingState, Setup, Volatile

CLIENT = Client(
    "novel",
    agents=("novel-agent/",),
    headers=("x-novel-run",),
    head=("You are Novel.",),
    title="Novel Agent",
    start="NOVEL_URL={url} novel",
    sends_late="Novel Agent sends one at night",
    advice=(("tools_changed", "Novel Agent", "NOVEL_TOOLS=all: it sends all its tools"),),
)
RULES = (Rule("novel-clock", "system", "It is [0-9:]+", "It is 0:00", "the clock stands still"),)

@hookimpl
def cacheproxy_session(request):
    return request.header("x-novel-run")

@hookimpl
def cacheproxy_setup(need):
    return Setup({"NOVEL_URL": need.url})

@hookimpl
def cacheproxy_checkup(case):
    wrong = Finding("novel", FindingState.FAIL, "it goes past the proxy", "unset NOVEL_URL")
    heads = Volatile("clock", ("novel-clock",), ("1:00", "2:00", "3:00"))
    is_wrong = case.is_upstream(case.environ.get("NOVEL_URL", ""))
    return Checkup((wrong,) if is_wrong else (), volatile=heads)
"""


@pytest.fixture
def packages(install):
    """Those that are installed: this one."""
    install("novel-agent", PACKAGE, client=False)
    return loaded()


def asked(system="You are.", **headers):
    body = json.dumps({"system": system, "messages": [{"role": "user", "content": "hi"}]})
    given = tuple((name.replace("_", "-").encode(), it.encode()) for name, it in headers.items())
    return Request("POST", "/v1/messages", given, body.encode())


@pytest.mark.parametrize(
    "request_",
    [
        asked(user_agent="Novel-Agent/3 (linux)"),
        asked(user_agent="a-gateway/1", x_novel_run="7"),
        asked("You are Novel. Be kind.", user_agent="a-gateway/1"),
    ],
)
def test_its_requests_are_told_by_each_of_its_marks(packages, request_):
    """Sessions, and with them log, captures, metrics and totals, have its name."""
    session = packages.session(request_)
    assert session.client == "novel"
    exchange = Exchange(request_, 0.0, session=session, turn=1, bytes_down=0)
    assert session.label in "".join(lines(exchange))
    # without a prompt the user agent tells
    bare = packages.clients.introduce(Request("GET", "/v1/models", request_.headers))
    speaks = request_.header("user-agent").startswith("Novel")
    assert Exchange(bare, 0.0, bytes_down=0).client == ("novel" if speaks else "a-gateway")


def test_a_session_of_its_own_and_a_subagent(packages):
    """By its header; what stands behind the colon works for what stands before it."""
    request = asked(user_agent="novel-agent/3", x_novel_run="7:helper")
    session = packages.session(request)
    assert session.name == "novel/7:helper"
    assert parent_of(request, session).name == "novel/7"


def test_it_is_set_up_and_started_in_its_own_way(packages):
    """``cacheproxy env novel``; the banner, and the page before the first request."""
    found = package_for("novel", others())
    assert found.setup(Need(PROXY)).variables == {"NOVEL_URL": PROXY}
    said = banner.rest(PROXY, None, (), packages, edits=True, open_to_others=False)
    assert f"  Novel Agent   NOVEL_URL={PROXY} novel" in list(said)
    assert packages.clients.starts("{url}", "") == {"Novel Agent": "NOVEL_URL={url} novel"}


def test_doctor_examines_it(packages, tmp_path):
    """Its settings, the head of its prompt that changes, its late system messages."""
    case = Case({"NOVEL_URL": "http://localhost:8080"}, tmp_path, PROXY, "http://127.0.0.1:8080")
    (checked,) = look_at_clients(packages, case, ())
    assert [finding.text for finding in checked.checkup.findings] == ["it goes past the proxy"]
    assert checked.checkup.volatile.what == "clock"
    found = Configured(packages, (), (), frozenset())
    known = facts(found=found, profile=UNKNOWN, record=recorded(seen(client="novel")))
    (late,) = late_messages(known)
    assert "in mid-conversation, which novel sends" in late.text


@pytest.mark.parametrize(
    "answer",
    [
        "1 / 0",
        "None",
        "Checkup(5)",
        "Checkup(('a',))",
        "Checkup((Finding('a', FindingState.OK, None),))",
        "Checkup(volatile=5)",
        "Checkup(volatile=Volatile('a', ('b',), ('c', 'd')))",
    ],
)
def test_a_checkup_that_fails_is_a_finding(install, answer, tmp_path):
    """With the plugin's name; the others are asked all the same."""
    names = "from cacheproxy import Checkup, Finding, FindingState, Volatile"
    hook = f"@hookimpl\ndef cacheproxy_checkup(): return {answer}"
    install("broken", f'{names}\nCLIENT = Client("broken")\n{hook}')
    install("novel-agent", PACKAGE, client=False)
    found = look_at_clients(loaded(), Case({}, tmp_path, PROXY, "http://127.0.0.1:8080"), ())
    assert [len(one.checkup.findings) for one in found] == [1, 0]
    assert found[0].checkup.findings[0].text.startswith("plugin broken: cacheproxy_checkup: ")


def test_its_advice_is_given_where_a_turn_broke(packages):
    verdict = Verdict(Judgement.BREAK, reason=Reason.TOOLS_CHANGED)
    told = advice(verdict, client=packages.clients[0])
    assert ("Novel Agent", "NOVEL_TOOLS=all: it sends all its tools") in [
        (one.do, one.why) for one in told
    ]
