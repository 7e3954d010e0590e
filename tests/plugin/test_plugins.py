"""Client packages: found by entry point, loaded in order, kept from harming each other."""

from __future__ import annotations

import importlib
import json
import sys
import textwrap

import pytest

from cacheproxy import hookimpl
from cacheproxy.core.conversation.session import session_of
from cacheproxy.core.prompt.client import Client
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.fold import normalize
from cacheproxy.core.rules.rule import CodeRule, Rule
from cacheproxy.plugin.errors import PluginError
from cacheproxy.plugin.packages import Packages, choose
from cacheproxy.plugin.plugins import Plugins
from cacheproxy.plugin.search_path import entry_points
from tests.observe.exchanges import exchange as exchange_of
from tests.turning import TurningReactor

HEAD = "from cacheproxy import Client, CodeRule, Edit, Rule, hookimpl\n"
CLIENT = """
@hookimpl
def cacheproxy_client():
    return Client("*")
"""
NONE = Packages()
EDITING = ("rules", "normalize", "session")


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install distributions into a folder of the path: one module, one entry point each."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)

    def one(
        name: str,
        code: str,
        *,
        module: str | None = None,
        target: str | None = None,
        distribution: str | None = None,
        client: bool = True,
    ) -> None:
        module = module or "plugin_of_" + name.replace("-", "_")
        code = textwrap.dedent(code)
        if client and any(f"@hookimpl\ndef cacheproxy_{hook}(" in code for hook in EDITING):
            code = CLIENT + code
        (tmp_path / f"{module}.py").write_text(HEAD + code, encoding="utf-8")
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution or 'dist-' + module}\nVersion: 1.0\n",
            encoding="utf-8",
        )
        (info / "entry_points.txt").write_text(
            f"[cacheproxy]\n{name} = {target or module}\n", encoding="utf-8"
        )
        importlib.invalidate_caches()

    yield one
    for name in set(sys.modules) - before:
        if name.startswith("plugin_of_"):
            del sys.modules[name]


def loaded(block: tuple[str, ...] = ()) -> Packages:
    """The packages of a test, without those that happen to be installed here."""
    others = [
        entry.name
        for entry in entry_points("cacheproxy")
        if not entry.value.startswith("plugin_of_")
    ]
    found = Packages.load((*block, *others))
    return Packages(package for package in found if package.name not in others)


def running(packages: Packages = NONE) -> Plugins:
    """A proxy's plugins, with ``packages`` in force."""
    plugins = Plugins(TurningReactor())
    plugins.adopt(packages)
    return plugins


def stop(plugins: Plugins) -> None:
    """Let the packages' observers see what waits."""
    found: list[object] = []
    plugins.finish().addBoth(found.append)
    plugins.reactor.turn_until(lambda: found)
    assert found == [None]


def imported(name: str) -> bool:
    return "plugin_of_" + name in sys.modules


def request_of(body: bytes = b'{"a": "x"}') -> Request:
    return Request("POST", "/v1/messages", body=body)


RULE = """
@hookimpl
def cacheproxy_rules():
    return [Rule("{0}", "/a", "x", "{0}", "why")]
"""
SESSION = """
@hookimpl
def cacheproxy_session(request):
    return "{0}/1"
"""


def test_packages_are_loaded_in_the_order_of_their_names(install):
    """Not in the order of the file system, and with name, distribution and version."""
    for name in ("zeta", "alpha", "mid"):
        install(name, RULE.format(name))
    plugins = loaded()
    assert [(p.name, p.distribution, p.version) for p in plugins] == [
        (name, f"dist-plugin_of_{name}", "1.0") for name in ("alpha", "mid", "zeta")
    ]
    assert [rule.name for rule in plugins.normalizers()] == ["alpha", "mid", "zeta"]
    assert all(p.error is None and not p.blocked for p in plugins)


HOOK = "@hookimpl\ndef cacheproxy_"
NO_HOOK = "PluginError: it implements no hook: mark its functions with @hookimpl"
NO_CLIENT = "PluginError: cacheproxy_client returns a cacheproxy.Client"


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("raise RuntimeError('first line\\nsecond line')", "RuntimeError: first line"),
        ("import no_such_module_anywhere", "ModuleNotFoundError"),
        ("this is no python", "SyntaxError"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        (HOOK + "rules(): raise ValueError('x')", "ValueError: x"),
        (HOOK + "rules(): return 5", "TypeError"),
        (HOOK + "rules(): return [5]", "RuleError: broken returned int instead of a Rule"),
        (HOOK + "rules(): return [Rule('Bad Name', '/a', 'x')]", "RuleError: rule 'Bad Name'"),
        (HOOK + "rules(): return [Rule('a', '/a', '(')]", "RuleError: rule 'a'"),
        (HOOK + "nomralize(request): return []", "PluginError: unknown hook cacheproxy_nomralize"),
        (HOOK + "session(request, reactor): return ''", "PluginError: a hook with other arg"),
        (HOOK + "session(nonsense): return ''", "PluginError: a hook with other arguments"),
        ("@hookimpl\ndef normalize(request): return []", "PluginError: unknown hook normalize"),
        (
            HOOK + "rules(): return [type('X', (), {'edits': print})()]",
            "RuleError: broken",
        ),
        (HOOK + "rules(): raise SystemExit", "SystemExit"),
        (HOOK + "rules(): raise GeneratorExit", "GeneratorExit"),
        (HOOK + "rules(): raise type('Of\\nmany', (BaseException,), {})", ""),
        (
            HOOK + "rules(): return iter(lambda: Rule('a', '/a', 'x', ''), 5)",
            "RuleError: broken",
        ),
        (HOOK + "rules(): return [CodeRule('a', 5, print)]", "RuleError: rule 'a'"),
        (HOOK + "rules(): return [CodeRule('a', '', print, 'yes')]", "RuleError: rule 'a'"),
        ("class Sly(Exception):\n    def __str__(self): raise SystemExit\nraise Sly", "Sly"),
        ("def cacheproxy_rules(): return []", NO_HOOK),
        ("", NO_HOOK),
        (HOOK + "client(): return 'mine'", NO_CLIENT),
        (HOOK + "client(): return [Client('mine')]", NO_CLIENT),
    ],
)
def test_a_package_that_cannot_be_loaded_stops_no_other(install, code, error):
    """It is recorded with one line of why, and nothing of it is called."""
    also = SESSION.format("broken") if HOOK + "rules" in code else ""
    install("broken", also + code)
    install("alpha", RULE.format("alpha"))
    install("zeta", SESSION.format("zeta"))
    plugins = loaded()
    assert [p.name for p in plugins] == ["alpha", "broken", "zeta"]
    assert [p.error is None for p in plugins] == [True, False, True]
    assert plugins[1].error.isprintable()
    assert plugins[1].error.startswith(error)
    assert [rule.name for rule in plugins.normalizers()] == ["alpha"]
    assert plugins.session(request_of()) == "zeta/1"


def test_an_entry_point_name_used_twice_costs_the_second_only(install):
    """The first package goes on working, hooks and all."""
    install("same", SESSION.format("one") + RULE.format("one"), module="plugin_of_one")
    install("same", SESSION.format("two") + RULE.format("two"), module="plugin_of_two")
    plugins = loaded()
    first, second = plugins
    assert (first.error, second.error) == (None, "PluginError: the name 'same' is taken")
    client = plugins.session(request_of()).partition("/")[0]
    assert [rule.name for rule in plugins.normalizers()] == [client]
    assert first.rules[0].name == client


@pytest.mark.parametrize(
    ("name", "target", "error"),
    [
        ("My_Plugin", None, "RuleError: rule 'My_Plugin'"),
        ("gone", "plugin_of_gone:nothing", "AttributeError"),
        ("capture", None, "PluginError: the name 'capture' is taken"),
        ("recent", None, "PluginError: the name 'recent' is taken"),
        ("log-line", None, "PluginError: the name 'log-line' is taken"),
    ],
)
def test_what_an_entry_point_may_not_be(install, name, target, error):
    """No rule's name, though its normalize hook is one; nothing at all; an observer of ours."""
    install(name, "@hookimpl\ndef cacheproxy_normalize(request): return []", target=target)
    packages = loaded()
    assert packages[0].error.startswith(error)
    running(packages).register(Watcher(), name)


def test_an_object_is_as_good_as_a_module(install):
    """An entry point may name an object with hooks."""
    install(
        "thing",
        """
        class Thing:
            @hookimpl
            def cacheproxy_client(self):
                return Client("*")

            @hookimpl
            def cacheproxy_session(self, request):
                return "thing/1"

        thing = Thing()
        """,
        target="plugin_of_thing:thing",
    )
    assert loaded().session(request_of()) == "thing/1"


def test_a_blocked_package_is_not_imported(install):
    """Blocking keeps its code from running at all."""
    install("bad", "raise SystemExit(3)")
    install("good", RULE.format("good"))
    plugins = loaded(block=("bad",))
    assert [(p.name, p.blocked, p.error) for p in plugins] == [
        ("bad", True, None),
        ("good", False, None),
    ]
    assert not imported("bad")
    assert imported("good")
    assert [rule.name for rule in plugins.normalizers()] == ["good"]


def test_blocking_a_package_that_is_not_there_is_an_error(install):
    """A misspelt name would block nothing."""
    install("good", RULE.format("good"))
    with pytest.raises(PluginError, match="block names no installed plugin: baad, wrong"):
        loaded(block=("wrong", "good", "baad"))


@pytest.mark.parametrize(
    "second", [RULE.format("beta"), "@hookimpl\ndef cacheproxy_normalize(request): return None"]
)
def test_one_rule_name_in_two_packages_is_an_error_that_names_both(install, second):
    """Names are how users switch rules; a normalize hook goes under its package's."""
    install("alpha", RULE.format("beta"))
    install("beta", second)
    with pytest.raises(PluginError, match="rule 'beta' comes from both alpha and beta"):
        loaded().normalizers()
    assert [rule.name for rule in loaded(block=("beta",)).normalizers()] == ["beta"]


NORMALIZE = '''
"""What the hook does.

More of it.
"""
from cacheproxy import hookimpl, Edit
@hookimpl
def cacheproxy_normalize({arguments}):
    yield Edit("/a", "{new}", "why")
'''


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
    assert found.session(request_of()) == "b/1"
    plugins.finished(exchange_of({}))
    stop(plugins)
    assert sys.modules["plugin_of_gamma"].seen == [1]


@pytest.mark.parametrize("answer", ["None", "[]", "iter(())", "()"])
def test_a_normalize_hook_may_say_nothing(install, answer):
    """None or no edits leaves the request as it is."""
    install("alpha", f"@hookimpl\ndef cacheproxy_normalize(request): return {answer}")
    request = request_of()
    assert normalize(request, loaded().normalizers()).request is request


@pytest.mark.parametrize("answer", ["5", "'text'", "[5]", "[Edit('/z', 1, '')]", "1 / 0"])
def test_a_failing_normalize_hook_is_left_out_by_name(install, answer):
    """Law 4 holds for hooks as for rules, and the next package sees the request."""
    install("alpha", f"@hookimpl\ndef cacheproxy_normalize(request): return {answer}")
    install("beta", NORMALIZE.format(arguments="request", new="y"))
    done = normalize(request_of(), loaded().normalizers())
    assert done.request.json == {"a": "y"}
    assert [(report.rule, report.error is None) for report in done.reports] == [
        ("alpha", False),
        ("beta", True),
    ]


def test_each_normalize_hook_is_called_on_its_own(install):
    """One package's hook sees what the other left, and neither is called for the other."""
    for name, new in (("alpha", "1"), ("beta", "2")):
        install(
            name,
            f"""
            seen = []

            @hookimpl
            def cacheproxy_normalize(request):
                seen.append(request.json["a"])
                return [Edit("/a", "{new}", "why")]
            """,
        )
    assert normalize(request_of(), loaded().normalizers()).request.json == {"a": "2"}
    assert sys.modules["plugin_of_alpha"].seen == ["x"]
    assert sys.modules["plugin_of_beta"].seen == ["1"]


def test_the_first_session_answer_in_the_order_of_names_wins(install):
    """None, an empty text, another type or an exception is no answer, then the core decides."""
    assert loaded().session(request_of()) is None
    for name, answer in (
        ("a", "None"), ("b", "''"), ("c", "5"), ("d", "1 / 0"), ("e", "'e/1'"), ("f", "'f/1'"),
    ):  # fmt: skip
        install(name, f"@hookimpl\ndef cacheproxy_session(request): return {answer}")
    assert loaded().session(request_of()) == "e/1"
    assert loaded().session(request_of(b"no json")) == "e/1"


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
        code = CodeRule("code", "", lambda request, previous: [], literals=listed, own=True)

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
    assert not any(rule.own for rule in rules)


@pytest.mark.parametrize(
    ("distribution", "own"), [("cacheproxy-openclaw", True), ("cacheproxy-openclaw-x", False)]
)
def test_only_this_projects_packages_are_our_own(install, distribution, own):
    """By their distribution: what a rule says of itself does not count."""
    code = CODE + SESSION.format("mine") + NORMALIZE.format(arguments="request", new="y")
    install("mine", code.format(own=not own), distribution=distribution)
    plugins = loaded()
    assert [(rule.name, rule.own) for rule in plugins.normalizers()] == [
        ("code", own),
        ("mine", own),
    ]
    assert [(hook.plugin, hook.own) for hook in plugins.session_hooks()] == [
        ("mine", own),
        ("clients", True),  # our own, which names declared clients
    ]


CODE = """
@hookimpl
def cacheproxy_rules():
    return [CodeRule("code", "why", lambda request, previous: [], own={own})]
"""


def test_an_endless_answer_of_a_normalize_hook_ends(install):
    """The hook's answer is looked at as it comes."""
    endless = "import itertools\n@hookimpl\ndef cacheproxy_normalize(request):\n    return ("
    install("alpha", endless + "Edit('/a', 'y', 'w') for _ in itertools.count())")
    done = normalize(request_of(), loaded().normalizers())
    assert [report.error for report in done.reports] == ["more than 10,000 edits"]


def test_a_packages_observer_sees_in_a_thread_and_ours_at_once(install):
    """In order; one that raises is counted, and none of ours waits for it."""
    install(
        "slow",
        """
        import threading
        gate = threading.Event()
        seen = []

        @hookimpl
        def cacheproxy_exchange_finished(exchange):
            assert gate.wait(10)
            seen.append(exchange.number)
            if exchange.number == 1:
                raise SystemExit
        """,
    )
    plugins = running(loaded())
    watcher, failing = Watcher(), Watcher(ValueError("SECRET"))
    plugins.register(watcher, "watcher")
    plugins.register(failing, "failing")
    for number in range(3):
        plugins.finished(exchange_of({}, number=number))
    module = sys.modules["plugin_of_slow"]
    assert [each.number for each in watcher.seen] == [0, 1, 2]
    assert module.seen == []
    module.gate.set()
    stop(plugins)
    assert module.seen == [0, 1, 2]
    failed = {name: count["failed"] for name, count in plugins.failures.as_dict().items()}
    hook = "cacheproxy_exchange_finished"
    assert failed == {f"failing: {hook}": 3, f"slow: {hook}": 1}


def test_stopping_does_not_wait_for_an_observer_that_hangs(install):
    """Three seconds, and what it has not seen is counted; without observers no time at all."""
    install(
        "slow",
        """
        import threading
        gate = threading.Event()

        @hookimpl
        def cacheproxy_exchange_finished(exchange):
            gate.wait(10)
        """,
    )
    plugins, found = running(loaded()), []
    for number in range(3):
        plugins.finished(exchange_of({}, number=number))
    plugins.finish().addBoth(found.append)
    plugins.reactor.advance(2.9)
    assert found == []
    plugins.reactor.advance(0.2)
    assert found == [None]
    assert plugins.failures.of("slow: cacheproxy_exchange_finished").dropped == 2
    sys.modules["plugin_of_slow"].gate.set()
    stop(running())


class Watcher:
    """An observer of our own."""

    def __init__(self, error: Exception | None = None) -> None:
        self.seen: list[object] = []
        self.error = error

    @hookimpl
    def cacheproxy_exchange_finished(self, exchange):
        self.seen.append(exchange)
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize(
    ("hook", "arguments", "words"),
    [("exchange_finnished", "exchange", "unknown hook"), ("session", "nonsense", "nonsense")],
)
def test_registering_a_hook_that_cannot_work_registers_nothing(hook, arguments, words):
    """Ours are checked as packages' are; what was registered before goes on."""
    namespace = {"hookimpl": hookimpl}
    exec(f"@hookimpl\ndef cacheproxy_{hook}(self, {arguments}): ...", namespace)
    odd = type("Odd", (), namespace)()
    plugins, watcher = Plugins(), Watcher()
    plugins.register(watcher, "watcher")
    with pytest.raises(PluginError, match=words):
        plugins.register(odd, "odd")
    with pytest.raises(PluginError, match="the name 'watcher' is taken"):
        plugins.register(Watcher(), "watcher")
    plugins.finished("exchange")
    assert watcher.seen == ["exchange"]


RULES = [
    Rule("on", "/a", "x", ""),
    Rule("off", "/a", "x", "", default=False),
    CodeRule("code", "why", lambda request, previous: []),
]


@pytest.mark.parametrize(
    ("enable", "disable", "names"),
    [
        ((), (), ["on", "code"]),
        (("off",), (), ["on", "off", "code"]),
        ((), ("on",), ["code"]),
        ((), ("off",), ["on", "code"]),
        (("on", "off"), ("code",), ["on", "off"]),
        (("on",), ("on",), ["on", "code"]),
        (["off", "off"], iter(["code"]), ["on", "off"]),
    ],
)
def test_choose_changes_the_defaults(enable, disable, names):
    """Order stays; what is enabled by name is on."""
    assert [rule.name for rule in choose(RULES, enable, disable)] == names


@pytest.mark.parametrize(("enable", "disable"), [(("onn",), ()), ((), ("onn", "zzz"))])
def test_choose_refuses_unknown_names_and_lists_the_known(enable, disable):
    """A misspelt name is an error with what could have been meant."""
    with pytest.raises(PluginError, match=r"no rule is called onn.*there are: code, off, on"):
        choose(RULES, enable, disable)
    with pytest.raises(PluginError, match="no client package is installed"):
        choose([], enable, disable)


def test_installed_packages_of_this_environment_do_not_clash():
    """Whatever is installed here loads side by side."""
    plugins = Packages.load()
    assert [package.error for package in plugins if package.error] == []
    names = [rule.name for rule in plugins.normalizers()]
    assert len(names) == len(set(names))


MINE = """
@hookimpl
def cacheproxy_client():
    return Client("mine", agents=("MyAgent/",), head=("You are Mine.",))
"""


def from_agent(agent: str, system: str = "") -> Request:
    body = json.dumps({"a": "x", "system": system}).encode()
    return Request("POST", "/v1/messages", ((b"user-agent", agent.encode()),), body)


def test_what_a_package_brings_is_for_its_client_alone(install):
    """Rules, the normalize hook, the session hook."""
    hook = NORMALIZE.format(arguments="request", new="z")
    install("mine", MINE + RULE.format("first") + hook + SESSION.format("mine"))
    plugins = loaded()
    (package,) = plugins
    assert package.client.name == "mine"
    rules = plugins.normalizers()
    assert [(rule.name, rule.client.name) for rule in rules] == [
        ("first", "mine"),
        ("mine", "mine"),
    ]
    ours, theirs = from_agent("MyAgent/1"), from_agent("codex/1", "You are Mine.")
    assert [report.rule for report in normalize(ours, rules).reports] == ["first", "mine"]
    assert normalize(theirs, rules) == (theirs, ())
    assert (plugins.session(ours), plugins.session(theirs)) == ("mine/1", None)


@pytest.mark.parametrize(
    "code", [RULE.format("a"), SESSION.format("a"), "@hookimpl\ndef cacheproxy_normalize(): ..."]
)
def test_a_package_that_does_not_say_whose_requests_it_is_for_is_not_loaded(install, code):
    """Else it would edit what other clients' users typed, and nobody would know."""
    install("alpha", code, client=False)
    (package,) = loaded()
    assert package.error.startswith("PluginError: it does not say whose requests it is for")
    assert loaded().normalizers() == []
    assert loaded().session_hooks() == []


def test_who_only_looks_needs_no_client(install):
    """An observer sees everybody's exchanges."""
    install("alpha", "@hookimpl\ndef cacheproxy_exchange_finished(exchange): pass", client=False)
    (package,) = loaded()
    assert (package.error, package.client) == (None, None)


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


def test_behind_a_gateway_a_session_has_its_clients_name(install):
    """An id of its package's, or else the core's own; another client's keeps its name."""
    install("mine", MINE + RULE.format("first"))
    plugins = loaded()
    asked = from_agent("litellm/1", "You are Mine.")
    answer = plugins.session(asked)
    assert answer is not None
    assert session_of(asked, answer).client == "mine"
    assert session_of(asked, answer).id != session_of(asked).id  # the name is part of the hash
    assert plugins.session(from_agent("MyAgent/1")) is not None
    assert plugins.session(from_agent("litellm/1", "You are.")) is None
    assert plugins.session(from_agent("codex/1", "You are Mine.")) is None
    named = Request("POST", "/v1/messages", (*asked.headers, (b"x-session-id", b"7")), asked.body)
    assert plugins.session(named) == "mine/7"
    odd = Request("POST", "/v1/messages", (*asked.headers, (b"x-session-id", b"\xad")), asked.body)
    assert plugins.session(odd) is None
