"""The plugins of one configuration: rules, sessions and clients, each under its own name."""

from __future__ import annotations

import json
import sys

import pytest

from cacheproxy.core.conversation.session import session_of
from cacheproxy.core.prompt.client import Client
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.code_rule import CodeRule, is_quick
from cacheproxy.core.rules.fold import normalize
from cacheproxy.core.rules.rule import Rule
from cacheproxy.plugin.package import PluginError
from cacheproxy.plugin.packages import choose
from tests import transcript
from tests.observe.exchanges import exchange as exchange_of
from tests.plugin.installing import (
    CLIENT,
    HEAD,
    NORMALIZE,
    RULE,
    SESSION,
    loaded,
    request_of,
    running,
    stop,
)


@pytest.mark.parametrize(
    "second", [RULE.format("beta"), "@hookimpl\ndef cacheproxy_normalize(request): return None"]
)
def test_one_rule_name_in_two_packages_is_an_error_that_names_both(install, second):
    install("alpha", RULE.format("beta"))
    install("beta", second)
    with pytest.raises(PluginError, match="rule 'beta' comes from both alpha and beta"):
        loaded().normalizers()
    assert [rule.name for rule in loaded(block=("beta",)).normalizers()] == ["beta"]


def test_one_that_brings_commands_alone_is_for_the_command_line(install, tmp_path):
    """A proxy neither lists it nor minds another plugin of its name; it can be blocked."""
    install("alpha", "@hookimpl\ndef cacheproxy_commands(): return []")
    install("beta", SESSION.format("b"))
    file = tmp_path / "alpha.py"
    file.write_text(HEAD + CLIENT + RULE.format("mine"))
    for found in (loaded(), loaded(earlier=loaded())):
        assert [each.name for each in found] == ["beta"]
        assert [each.name for each in found.with_files([str(file)])] == ["beta", "alpha"]
    assert loaded(block=("alpha",))[0].blocked


def test_a_normalize_hook_runs_under_its_packages_name(install, tmp_path):
    """It comes after the package's rules, described by its module's first line."""
    install("alpha", "")
    (tmp_path / "plugin_of_alpha.py").write_text(
        NORMALIZE.format(arguments="request, previous", new="y")
        + (HEAD + CLIENT + RULE.format("first"))
    )
    first, hook = loaded().normalizers()
    assert (first.name, hook.name) == ("first", "alpha")
    assert (hook.why, hook.default, hook.needs_previous) == ("What the hook does.", True, True)
    done = normalize(request_of(), [first, hook])
    assert done.request.json == {"a": "y"}
    assert [report.rule for report in done.reports] == ["first", "alpha"]


@pytest.mark.parametrize(
    ("arguments", "needs_previous"),
    [("request", False), ("", False), ("previous", True), ("previous, request", True)],
)
def test_a_hook_may_take_fewer_arguments(install, arguments, needs_previous):
    """And only one that names previous makes the proxy keep previous requests."""
    install("alpha", NORMALIZE.format(arguments=arguments, new="y"))
    install("beta", "@hookimpl\ndef cacheproxy_session(): return 'b/1'")
    install("gamma", "seen = []\n@hookimpl\ndef cacheproxy_exchange_finished(): seen.append(1)")
    found = loaded()
    plugins = running(found)
    (hook,) = found.normalizers()
    assert hook.needs_previous is needs_previous
    assert normalize(request_of(), [hook]).request.json == {"a": "y"}
    assert found.session(request_of()).name == "b/1"
    plugins.finished([exchange_of({})])
    stop(plugins)
    assert sys.modules["plugin_of_gamma"].seen == [1]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        *((nothing, "") for nothing in ("None", "[]", "iter(())", "()")),
        ("5", "TypeError"),
        ("'text'", "str"),
        ("[5]", "int"),
        ("[Edit('/z', 1, '')]", "PathError"),
        ("1 / 0", "ZeroDivisionError"),
        ("(Edit('/a', 'y', 'w') for _ in iter(int, 1))", "more than 10,000 edits"),
    ],
)
def test_a_normalize_hook_may_say_nothing_and_is_left_out_by_name_if_it_fails(
    install, answer, error
):
    """Law 4 holds for hooks as for rules, and the next package sees the request."""
    install("alpha", f"@hookimpl\ndef cacheproxy_normalize(request): return {answer}")
    install("beta", NORMALIZE.format(arguments="request", new="y"))
    done = normalize(request_of(), loaded().normalizers())
    assert done.request.json == {"a": "y"}
    *failed, beta = done.reports
    assert (beta.rule, beta.error) == ("beta", None)
    assert [report.rule for report in failed] == (["alpha"] if error else [])
    assert all(error in report.error for report in failed)


def test_the_first_session_answer_in_the_order_of_names_wins(install):
    """None, an empty text, another type or an exception is no answer, then the core decides."""
    assert loaded().session(request_of()).client == "client"
    for name, answer in (
        ("a", "None"), ("b", "''"), ("c", "5"), ("d", "1 / 0"), ("e", "'e/1'"), ("f", "'f/1'"),
    ):  # fmt: skip
        install(name, f"@hookimpl\ndef cacheproxy_session(request): return {answer}")
    assert loaded().session(request_of()).name == "e/1"
    assert loaded().session(request_of(b"no json")).name == "e/1"


def test_a_normalizer_of_its_own_kind_is_taken_as_it_is_at_the_start(install):
    """What it says of itself later changes nothing: nobody asks it again."""
    install(
        "alpha",
        """
        class Mine:
            name, why, default, literals, needs_previous = "mine", "why", True, ["x"], False

            def edits(self, request, previous):
                return [Edit("/a", "y", "why")]

        mine = Mine()

        class Derived(Rule):
            def edits(self, request, previous=None):
                return [Edit("/a", "z", "why")]

        listed = ["z"]
        code = CodeRule("code", "", lambda request, previous: [], literals=listed)

        @hookimpl
        def cacheproxy_rules():
            return [mine, Derived("derived", "/a", "x", ""), code]
        """,
    )
    rules = loaded().normalizers()
    module = sys.modules["plugin_of_alpha"]
    module.Mine.name = module.Mine.literals = 5
    module.listed.append(5)
    assert [type(rule) for rule in rules] == [CodeRule, CodeRule, CodeRule]
    assert [rule.name for rule in rules] == ["mine", "derived", "code"]
    assert [rule.literals for rule in rules] == [("x",), (), ("z",)]
    assert normalize(request_of(), rules[:1]).request.json == {"a": "y"}
    assert normalize(request_of(), rules[1:]).request.json == {"a": "z"}
    assert not any(map(is_quick, rules))


RULES = [
    Rule("on", "/a", "x", ""),
    Rule("off", "/a", "x", "", default=False),
    CodeRule("code", "why", lambda request, previous: []),
]


def chosen(enable, disable):
    return [rule.name for rule in choose(RULES, enable, disable)]


def test_which_rules_are_on():
    transcript.holds("choose.txt", globals())


MINE = """
@hookimpl
def cacheproxy_client():
    return Client("mine", agents=("MyAgent/",), head=("You are Mine.",))
"""


def from_agent(agent: str, system: str = "") -> Request:
    body = json.dumps({"a": "x", "system": system}).encode()
    return Request("POST", "/v1/messages", ((b"user-agent", agent.encode()),), body)


def test_what_a_package_brings_is_for_its_client_alone(install):
    hook = NORMALIZE.format(arguments="request", new="z")
    install("mine", MINE + RULE.format("first") + hook + SESSION.format("mine"))
    install("other", 'CLIENT = Client("known", agents=("codex",))\nRULES = ()')
    plugins = loaded()
    package, _ = plugins
    assert package.client.name == "mine"
    rules = plugins.normalizers()
    assert [(rule.name, rule.client.name) for rule in rules] == [
        ("first", "mine"),
        ("mine", "mine"),
    ]
    asked = from_agent("MyAgent/1"), from_agent("codex/1", "You are Mine.")
    ours, theirs = map(plugins.clients.introduce, asked)
    assert [report.rule for report in normalize(ours, rules).reports] == ["first", "mine"]
    assert normalize(theirs, rules) == (theirs, ())
    assert plugins.session(ours).name == "mine/1"
    assert plugins.session(theirs).client == "known"


def test_a_rule_may_have_a_client_of_its_own(install):
    """Beside its package's; where each has one, the package needs none."""
    code = """
    @hookimpl
    def cacheproxy_rules():
        return [Rule("own", "/a", "x", "y", client=Client("codex"))]
    """
    install("alpha", code, client=False)
    (rule,) = loaded().normalizers()
    assert normalize(from_agent("codex/1"), [rule]).request.json["a"] == "y"
    assert normalize(from_agent("MyAgent/1"), [rule]).reports == ()


def test_a_rule_of_the_users_is_for_the_client_that_a_package_declares(install):
    """By its marks; one that nobody declares is told by its user agent."""
    install("mine", MINE + RULE.format("first"))
    plugins = loaded()
    own = [Rule(name, "/a", "x", "y", client=Client(name)) for name in ("mine", "codex")]
    _, mine, codex = plugins.normalizers([*own])
    gateway = from_agent("litellm/1", "You are Mine.")
    assert normalize(gateway, [mine]).request.json["a"] == "y"
    assert normalize(gateway, [codex]).reports == ()
    assert normalize(from_agent("codex/1"), [codex]).request.json["a"] == "y"
    assert normalize(from_agent("codex/1"), [mine]).reports == ()


FORK = """
_FORK = Client("fork", agents=("fork-of-mine/",), head=("You are Fork.",))

@hookimpl
def cacheproxy_rules():
    return [
        Rule("mine", "/a", "x", "y"),
        Rule("fork", "/a", "x", "z", client=_FORK),
        Rule("nearly", "/b", "x", "y", client=Client("mine", agents=("nearly/",))),
    ]
"""


def test_a_client_that_only_a_rule_knows_is_declared_too(install):
    """Its sessions have its name, and a rule of the user's for that name is told by its marks."""
    install("mine", MINE + FORK)
    plugins = loaded()
    assert [client.name for client in plugins.clients] == ["mine", "fork"]
    assert plugins.clients[0] == plugins[0].client  # what the package itself declares comes first
    asked = from_agent("fork-of-mine/1")
    assert plugins.session(asked).client == "fork"
    assert plugins.session(from_agent("litellm/1", "You are Fork.")).client == "fork"
    own = plugins.normalizers([Rule("own", "/a", "x", "w", client=Client("fork"))])[-1]
    assert normalize(asked, [own]).request.json["a"] == "w"
    assert normalize(from_agent("MyAgent/1"), [own]).reports == ()


def test_behind_a_gateway_a_session_has_its_clients_name(install):
    """An id of its package's, or else the core's own; another client's keeps its name."""
    install("mine", MINE + RULE.format("first"))
    plugins = loaded()
    asked = from_agent("litellm/1", "You are Mine.")
    session = plugins.session(asked)
    assert session.client == "mine"
    assert session.id != session_of(asked).id  # the name is part of the hash
    assert plugins.session(from_agent("MyAgent/1")).client == "mine"
    assert plugins.session(from_agent("litellm/1", "You are.")).client == "litellm"
    assert plugins.session(from_agent("other/1", "You are Mine.")).client == "mine"
    install("other", 'CLIENT = Client("known", agents=("other/",))\nRULES = ()')
    assert loaded().session(from_agent("other/1", "You are Mine.")).client == "known"
    named = Request("POST", "/v1/messages", (*asked.headers, (b"x-session-id", b"7")), asked.body)
    assert plugins.session(named).name == "mine/7"
    odd = Request("POST", "/v1/messages", (*asked.headers, (b"x-session-id", b"\xad")), asked.body)
    assert plugins.session(odd).name == "mine/\xad"
