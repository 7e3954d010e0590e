"""What a server refuses is mended by a plugin's adaptation: the real proxy, a scripted server."""

import json
from types import ModuleType

import pytest

from cacheproxy.plugin.package import PluginError, package_of
from tests.core.templates import inline
from tests.proxy.placing.bodies import WITHOUT, ask
from tests.proxy.placing.templated import PATHS, ModelServer, answer_of

PLUGIN = '''
"""A server that knows no member "n", nor "odd"."""
from cacheproxy import REMOVE, AdaptationNeed, Edit

class Without:
    def __init__(self, member):
        self.name, self._member = f"no-{member}", member

    def needed(self, request, remembered):
        return AdaptationNeed(remembered) if self._member in request.json else None

    def refused(self, refusal, request, need):
        if f"'{self._member}'" not in refusal.words:
            return None
        return AdaptationNeed({(): refusal.status})

    def edits(self, request, need):
        return [Edit(f"/{self._member}", REMOVE, f"it knows no {self._member}")]


class Faulty(Without):
    def refused(self, refusal, request, need):
        request.json.clear()
        FAULT


ADAPTATIONS = [Faulty("x"), Without("n"), Without("odd")]
'''
SENT = WITHOUT | {"n": 1, "odd": {"deep": [1]}}
LESS = WITHOUT


@pytest.fixture
def server():
    """A server that refuses the first member that it does not know."""
    made = ModelServer(inline)

    def answer(server, peer, _, body):
        unknown = next((name for name in ("n", "odd") if name in body), None)
        if unknown is None:
            server.send(peer, b"200 OK", answer_of("messages", 9, None))
        else:
            said = {"message": f"unknown member '{unknown}'", "type": "invalid_request_error"}
            server.send(peer, b"400 Bad Request", {"error": said})

    made.pages[PATHS["messages"]] = answer
    return made


@pytest.fixture
def begin(start, server, tmp_path):
    """Start a proxy before it, with the plugin; the fault of its first is one of these."""

    def with_plugin(*arguments, fault="return None"):
        file = tmp_path / "mends.py"
        file.write_text(PLUGIN.replace("FAULT", fault))
        return start(server, "--plugin", str(file), *arguments)

    return with_plugin


def keys(server):
    return [sorted({*body} & {"n", "odd"}) for body in server.bodies(PATHS["messages"])]


def test_a_plugins_adaptation_mends_a_refusal_and_is_remembered(begin, server):
    """Each thing takes one more attempt; the next request needs none, and is the same."""
    proxy = begin()
    assert ask(proxy, SENT).status == 200
    assert keys(server) == [["n", "odd"], ["odd"], []]
    proxy.wait_for("1 edit by rule no-n, 1 edit by rule no-odd")
    healed = server.raw[-1].body
    assert json.loads(healed) == LESS
    server.asked.clear()
    assert ask(proxy, SENT).status == 200
    assert keys(server) == [[]]
    assert server.raw[-1].body == healed
    assert ask(proxy, WITHOUT).status == 200
    assert server.raw[-1].body == json.dumps(WITHOUT).encode()


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ('raise SystemExit("a canary")', "adaptation no-x was left out of a request: SystemExit"),
        ("return 7", "adaptation no-x was left out of a request"),
        ("return AdaptationNeed()", "adaptation no-x was left out of a request: PathError"),
    ],
)
def test_a_failure_is_its_own_and_named(begin, server, fault, says):
    """The others mend all the same."""
    proxy = begin(fault=fault)
    assert ask(proxy, SENT).status == 200
    assert keys(server)[-1] == []
    proxy.wait_for(says)
    assert proxy.page("health")["failures"]["no-x"]["failed"] >= 1
    assert "canary" not in proxy.output


@pytest.mark.parametrize(
    ("arguments", "left"),
    [
        (("--mend", "off"), [["n", "odd"]]),
        (("--disable", "no-odd"), [["n", "odd"], ["odd"]]),
        (("--disable", "no-n"), [["n", "odd"]]),
    ],
)
def test_what_is_switched_off_mends_nothing(begin, server, arguments, left):
    """The server's last answer is the client's."""
    proxy = begin(*arguments)
    answer = ask(proxy, SENT)
    assert answer.status == 400
    assert json.loads(answer.body)["error"]["message"] == f"unknown member '{left[-1][0]}'"
    assert keys(server) == left


class Mends:
    """Has all that an adaptation needs."""

    name = "mends"
    needed = refused = edits = staticmethod(lambda *_: None)


class Model(Mends):
    """Has a name of ours."""

    name = "model"


@pytest.mark.parametrize("found", [[7], [Mends(), Mends()], [Model()], [Mends] * 101])
def test_what_is_no_adaptation_is_refused_at_the_start(found):
    plugin = ModuleType("plugin")
    plugin.ADAPTATIONS = [Mends()]
    assert len(package_of(plugin, "mends").adaptations) == 1
    plugin = ModuleType("plugin")
    plugin.ADAPTATIONS = found
    with pytest.raises(PluginError, match="cacheproxy_adaptations returns"):
        package_of(plugin, "mends")
