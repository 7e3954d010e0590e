"""The tables of upstreams and routes, and what is told of those that cannot be."""

from __future__ import annotations

import pytest

from cacheproxy.config import Config, ConfigError
from cacheproxy.core.route.facts import RequestKind
from cacheproxy.core.route.route import Price
from cacheproxy.record.alarms import AlarmLimits
from cacheproxy.sources import check_secrets, load
from cacheproxy.tables import AlarmTable, UpstreamTable

ONE = '[[upstream]]\nname = "a"\nurl = "http://localhost:1"\n'
SAME = '[[upstream]]\nname = "b"\nurl = "{}"\n'
TWO = ONE + '[[upstream]]\nname = "b"\nurl = "localhost:2/v1"\n'


@pytest.fixture
def read(tmp_path):
    """Read a config file with this text."""

    def read(text, environ=None, **options):
        file = tmp_path / "config.toml"
        file.write_text(text)
        config = load(options, environ or {}, str(file))
        check_secrets(config, environ or {})
        return config

    return read


def test_one_upstream_is_one_without_a_name():
    """As it has always been."""
    assert Config().servers == (UpstreamTable("", "http://localhost:8080"),)


def test_a_table_has_all_that_an_upstream_has(read):
    """The first one's URL is what stands for them where there can be but one."""
    more = (
        'key_env = "K"\nmodels = ["qwen*"]\nmax_context = 4096\nremote = true\nfallback = true\n'
        "cost_in = 3\ncost_out = 15.0\ncost_cached = 0.3\n"
    )
    config = read(TWO + more, {"K": "kanarienvogel"})
    first, second = config.servers
    assert config.upstream == "http://localhost:1"
    assert first == UpstreamTable("a", "http://localhost:1")
    assert second.price == Price(3.0, 15.0, 0.3)
    assert second.target.models == ("qwen*",)
    assert second.target.is_fallback
    assert (second.max_context, second.remote) == (4096, True)
    assert second.key({"K": "kanarienvogel"}) == "kanarienvogel"
    assert "kanarienvogel" not in repr(config)


def test_a_route_has_all_that_it_matches(read):
    """One kind or several; without a name it has its number."""
    text = (
        TWO + '[[route]]\nto = ["a"]\nkind = "title"\n'
        '[[route]]\nname = "long"\nto = ["a", "b"]\nkind = ["main", "subagent"]\nclient = "c*"\n'
        'model = "m"\ntools = true\nmin_tokens = 5\nmax_tokens = 9\nprefer = "cost"\nmax_cost = 1\n'
    )
    first, second = (table.route(at) for at, table in enumerate(read(text).route, 1))
    assert (first.name, first.to, first.kinds) == (
        "route 1",
        ("a",),
        frozenset({RequestKind.TITLE}),
    )
    assert (second.name, second.to) == ("long", ("a", "b"))
    assert second.kinds == {RequestKind.MAIN, RequestKind.SUBAGENT}
    assert (second.client, second.model, second.has_tools) == ("c*", "m", True)
    assert (second.least, second.most, second.prefer, second.max_cost) == (5, 9, "cost", 1.0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (ONE + ONE, "two upstreams are called 'a'"),
        (ONE + ONE.replace('"a"', '"b"'), 'upstreams "a", "b" have the same url'),
        (ONE + SAME.format("127.0.0.1:1/v1"), 'upstreams "a", "b" have the same url'),
        (ONE + SAME.format("http://LOCALHOST:1/"), 'upstreams "a", "b" have the same url'),
        (ONE + SAME.format("http://[::1]:1"), 'upstreams "a", "b" have the same url'),
        (TWO + '[[route]]\nto = ["c"]', 'number 1 leads to \'c\', but there is only "a", "b"'),
        (TWO + '[[route]]\nname = "x\\n"\nto = ["a"]', "route 'x\\n': a name has up to 64"),
        (TWO + '[[route]]\nname = "x"\nto = []', "route 'x' leads nowhere"),
        (TWO + '[[route]]\nkind = "title"', "[[route]] number 1: to is missing"),
        (TWO + '[[route]]\nto = ["a"]\nkind = "tilte"', "kind must be one of main, title"),
        (
            TWO + '[[route]]\nto = ["a"]\nprefer = "speed"',
            "prefer must be one of '', latency, cost",
        ),
        (
            TWO + ('[[route]]\nto = ["a"]\nmin_tokens = 9\nmax_tokens = 8'),
            "less than min_tokens, so no request",
        ),
        (TWO + 2 * '[[route]]\nname = "x"\nto = ["a"]\n', "two routes are called 'x'"),
        ('[[route]]\nto = ["a"]', "a route needs [[upstream]] tables"),
        (
            ONE + "max_context = 0",
            "number 1: max_context must be a whole number of at",
        ),
        (ONE + "cost_in = -1", "[[upstream]] number 1: cost_in must be a number of at least 0"),
        (ONE + "colour = 1", "[[upstream]] number 1: colour is not a setting"),
        (
            ONE + 'key_env = "NOT_THERE"',
            ("upstream 'a': the variable NOT_THERE is not set: export it"),
        ),
        (ONE + "fallback = true", "all upstreams are fallbacks"),
        (
            TWO + "remote = true",
            "(key_env), or set forward_credentials = true",
        ),
        (
            TWO + 'remote = true\nforward_credentials = true\nkey_env = "HOME"',
            "remove it or forward_credentials",
        ),
        (ONE.replace('"a"', '"a b"'), "a name has up to 32 letters"),
        (ONE.replace("localhost:1", "api.example.com"), "remote = true if prompts may go there"),
        ('upstream = "http://x"\n' + ONE, "has both upstream and [[upstream]] tables:"),
    ],
)
def test_what_cannot_be_is_one_line(read, text, says):
    """It names what is wrong, and mostly how to mend it."""
    with pytest.raises(ConfigError) as found:
        read(text)
    assert says in str(found.value)
    assert "\n" not in str(found.value)


def test_an_upstream_beside_the_tables_is_refused(read):
    """Whichever way it is given."""
    with pytest.raises(ConfigError, match="and one more upstream is given"):
        read(ONE, {"CACHEPROXY_UPSTREAM": "http://x"})
    with pytest.raises(ConfigError, match="and one more upstream is given"):
        read(ONE, upstream="http://x")


def test_a_key_that_is_none_is_named_without_being_shown(read):
    """A newline in it would be another header."""
    with pytest.raises(ConfigError) as found:
        read(ONE + 'key_env = "K"', {"K": "se\ncret"})
    assert "the value of K is not a key" in str(found.value)
    assert "cret" not in str(found.value)


@pytest.mark.parametrize("key", ["sk-kanarienvogel", "kanarienvogel"])
def test_a_key_in_place_of_its_variable_is_not_shown(read, key):
    """Who puts the key itself there reads how it is meant, and the log has no key."""
    with pytest.raises(ConfigError) as found:
        read(ONE + f'key_env = "{key}"')
    assert str(found.value) == (
        "upstream 'a': key_env does not name a variable that is set. Export the key in a variable, "
        "and write the variable's name there"
    )


def test_ports_and_paths_tell_upstreams_apart(read):
    """A port that goes without saying is the same as one that is said."""
    text = '[[upstream]]\nname = "a"\nurl = "http://h"\n'
    for other in ("http://h:81", "https://h", "http://h/two", "http://h2"):
        assert len(read(text + SAME.format(other)).servers) == 2
    with pytest.raises(ConfigError, match="have the same url: remove one"):
        read(text + SAME.format("http://h:80"))


ALARM = '[alarm]\nwebhook = "https://example.org/hook?key=kanarienvogel"\n'


def test_the_alarm_has_settings_of_its_own(read):
    """Those that are not given are as they always are; the secret stands in none."""
    config = read(f'{ALARM}tokens = 5000\ndesktop = true\nsecret_env = "HOOK"\n', {"HOOK": "bird"})
    hook = "https://example.org/hook?key=kanarienvogel"
    assert config.alarm == AlarmTable(tokens=5_000, desktop=True, webhook=hook, secret_env="HOOK")
    assert (config.alarm.bell, config.alarm.turns) == (True, AlarmLimits().turns)
    assert config.alarm.secret({"HOOK": "bird"}) == "bird"
    assert "bird" not in repr(config)
    assert read("").alarm == Config().alarm == AlarmTable()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("alarm = 3", "[alarm]: must be a table, not a whole number"),
        ("[[alarm]]", "[alarm]: must be a table, not a list"),
        ("[alarm]\ntoken = 3", "line 2: [alarm]: token is not a setting. Did you mean tokens?"),
        ("[alarm]\nreuse = 50", "line 2: [alarm]: reuse must be a number of at most 1"),
        ("[alarm]\nseconds = -1", "line 2: [alarm]: seconds must be a number of at least 0"),
        ("[alarm]\nturns = 0", "line 2: [alarm]: turns must be a whole number of at least 1"),
        ('[alarm]\nbell = "no"', "line 2: [alarm]: bell must be true or false, not text"),
        ('[alarm]\nwebhook = "hook"', "[alarm]: webhook is not a URL"),
        ('[alarm]\nwebhook = "ftp://localhost/"', "[alarm]: webhook is not a URL"),
        ('[alarm]\nwebhook = "http://[::1/"', "[alarm]: webhook is not a URL"),
        ('[alarm]\nwebhook = "http://localhost:99999/"', "[alarm]: webhook is not a URL"),
        ('[alarm]\nwebhook = "https://me:kanarienvogel@a/"', "[alarm]: webhook is not a URL"),
        ('[alarm]\nwebhook = "https://a/kanarien vogel"', "[alarm]: webhook is not a URL"),
        ('[alarm]\nwebhook = "http://a.example.com/"', "use https for it"),
        ('[alarm]\nsecret_env = "HOOK"', "secret_env needs a webhook"),
        (f'{ALARM}secret_env = "HOOK"', "[alarm]: the variable HOOK is not set: export it"),
        (f'{ALARM}secret_env = "kanarienvogel"', "write the variable's name there"),
    ],
)
def test_an_alarm_that_cannot_be_is_one_line(read, text, says):
    """Without the URL, which may be a secret itself."""
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "kanarien" not in str(caught.value)


@pytest.mark.parametrize("host", ["localhost:8", "127.0.0.1", "[::1]:9", "nas", "192.168.1.2"])
def test_plain_http_stays_in_this_network(read, host):
    """Where model servers are asked so, too."""
    assert read(f'[alarm]\nwebhook = "http://{host}/hook"\n').alarm.webhook
