"""What is said of the server's template."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cacheproxy_demo.embedded import LlamaServer, write_model

from cacheproxy.asking import HEALTH, Site
from cacheproxy.client_setup.finding import FindingState
from cacheproxy.core.conversation.verdict import Reason, Rewrite
from cacheproxy.core.placement.placement import Late, Placement, alike
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.core.servers.profile import UNKNOWN, Profile, ServerFacts, Thinking, ThinkingProfile
from cacheproxy.doctor import facts as asking
from cacheproxy.doctor import server_checks
from cacheproxy.doctor.record import NO_RECORD
from tests import needs
from tests.doctor.builders import RUNS, facts, recorded, seen
from tests.llama.templates import REWRITING, TEMPLATES

REFUSED = alike(Late.REFUSED, "/apply-template")
CLAUDE, OTHER = recorded(seen()), recorded(seen(client="cline"))


def known(peer, placement):
    """Return what doctor takes for known where the proxy's page says this."""
    page = {"version": "9", "upstream": {}, "profile": {}, "placement": placement}
    return asking.look_at_proxy(peer({HEALTH: page}).url, {}).profile.placement


def late(placement, record=NO_RECORD):
    known = facts(profile=Profile(placement=placement), record=record)
    return list(server_checks.late_messages(known))


def turns(profile, record=NO_RECORD, keeps=""):
    """What is said of turns, with the record of a proxy that does this with reasoning."""
    proxy = replace(RUNS, keeps=keeps)
    return list(server_checks.next_turns(facts(profile=profile, record=record, proxy=proxy)))


def test_what_the_proxy_has_learned_is_printed_in_its_words(peer):
    """From its health page."""
    (found,) = late(known(peer, {"setting": "auto"} | REFUSED.as_dict()), CLAUDE)
    assert (found.name, found.state, found.text) == ("template", FindingState.OK, REFUSED.mended)


UNTOLD = alike(Late.UNKNOWN, "").as_dict()


@pytest.mark.parametrize(
    "placement", [None, 5, {}, {"late": "unknown", "says": ""}, UNTOLD, UNTOLD | {"system": 5}]
)
def test_what_is_not_known_matters_to_clients_that_send_such_messages(peer, placement):
    """They are told what can be done; nothing is said where no such client came."""
    placement = known(peer, placement)
    (found,) = late(placement, CLAUDE)
    assert found.state is FindingState.WARN
    assert "--placement user" in found.fix
    assert late(placement, OTHER) == []
    assert late(placement) == []


def test_what_nothing_can_mend_is_a_warning_of_its_own(peer):
    """Beside what the proxy does about late messages, whoever came; the words are the same."""
    placement = Placement(REFUSED.system, alike(Late.UNKNOWN, "").system, refuses=("a", "b"))
    said, *refused = late(known(peer, placement.as_dict()))
    assert (said.state, said.text) == (FindingState.OK, placement.mended)
    assert [finding.state for finding in refused] == [FindingState.WARN] * 2
    for finding, what in zip(refused, placement.refuses, strict=True):
        assert f"refuses {what}," in finding.text
        assert "--chat-template-file" in finding.fix
        assert f"it refuses {what}, which nothing can mend" in placement.says
        assert what not in placement.mended.split()


def test_what_nothing_can_mend_is_said_where_the_rest_is_not_known(peer):
    """And where no client came to which the rest matters."""
    placement = replace(alike(Late.UNKNOWN, ""), refuses=("calls", "ids"))
    placement = known(peer, placement.as_dict())
    assert [finding.fix for finding in late(placement)] == [server_checks.OTHER_TEMPLATE] * 2
    assert len(late(placement, CLAUDE)) == 3


SEEN = (
    seen(turn=2, rewrite=Rewrite.THINKING, lost=400, reason=Reason.TEMPLATE_CHANGED),
    seen(turn=3),
    seen(turn=4, rewrite=Rewrite.THINKING, lost=500, reason=Reason.TEMPLATE_CHANGED),
)


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """Return what a real server with a template of that name tells."""
    needs.llama()
    folder = tmp_path_factory.mktemp("templates")
    known = {}

    def learned(name):
        if name not in known:
            text = (TEMPLATES | REWRITING)[name]
            model = write_model(folder / f"{name}.gguf", template=text)
            with LlamaServer(model, n_ctx=1024) as server:
                site = Site(server.url)
                found = asking.look_at_server(site)
                known[name] = asking.learned(site, found.profile, found.look.formats)
        return known[name]

    return learned


@pytest.mark.llama
@pytest.mark.parametrize("name", ["inline", "user", "strict", "hoist", "drop", "turns"])
def test_templates_in_which_it_only_grows(learned, name):
    """Whatever they do with late system messages, of which it has none."""
    (found,) = turns(learned(name))
    assert (found.name, found.state) == ("template", FindingState.OK)
    assert "only appends" in found.text


@pytest.mark.llama
def test_thinking_that_is_dropped_and_cannot_be_kept(learned):
    (found,) = turns(learned("think"))
    assert (found.state, found.fix) == (FindingState.WARN, None)
    assert found.text.startswith(
        "at the second user message this template drops the thinking of the turn before: "
        "the server reads everything after the first user message again, whether the client"
    )
    assert "no chat_template_kwargs" in found.text


@pytest.mark.llama
def test_thinking_that_is_kept_when_asked(learned):
    """The cure was tried; what it has cost is told where the proxy has counted it."""
    (found,) = turns(learned("keep"), recorded(*SEEN))
    assert found.state is FindingState.WARN
    assert found.fix.startswith("start the proxy with --keep-thinking yes")
    assert "it cost 900 tokens in 2 of the last 3 turns" in found.text
    (found,) = turns(learned("keep"), recorded())
    assert "it cost" not in found.text


@pytest.mark.llama
def test_thinking_that_the_proxy_keeps(learned):
    (found,) = turns(learned("keep"), recorded(), "drops it: all keep it")
    assert (found.state, found.text) == (FindingState.OK, "the template drops it: all keep it")
    (found,) = turns(learned("think"), recorded(), "whatever it says")
    assert found.state is FindingState.WARN


@pytest.mark.llama
def test_tools_that_move(learned):
    (found,) = turns(learned("tools"))
    assert (found.state, found.fix) == (FindingState.WARN, None)
    assert "moves the tools" in found.text
    assert found.text.endswith("reads everything after the system text again; no fix is known")


@pytest.mark.llama
def test_a_clock_at_the_head(learned):
    """The real strftime_now of the server."""
    found = learned("clock")
    assert found.clock == "the time"
    (line,) = turns(replace(found, server=ServerFacts("vLLM")))
    assert line.state is FindingState.WARN
    assert "prints the time" in line.text
    assert line.fix == (
        "start vLLM with --chat-template FILE: a copy of the template without that line"
    )


KEPT = ThinkingProfile(Thinking.KEPT)
SENT = "thinking of the turn before: the server reads everything after the first user message again"


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        (UNKNOWN, []),
        (Profile(clock="the date"), ["behind it again once a day"]),
        (Profile(thoughts=ThinkingProfile(Thinking.DROPPED)), [f"{SENT}, if the client sends its"]),
        (
            Profile(thoughts=ThinkingProfile(Thinking.NEVER_SHOWN, writes_empty=True)),
            ["drops the empty thinking block that it had written: the server", "does not send"],
        ),
        (
            Profile(
                thoughts=KEPT, order=PromptOrder.TOOLS_FIRST, tools_last=True, system_last=True
            ),
            ["moves the tools,", "moves the system text,", "reads the whole prompt again"],
        ),
    ],
)
def test_what_a_template_does_in_words(profile, words):
    """Nothing is said where nothing is known."""
    text = "\n".join(finding.text for finding in turns(profile))
    assert all(word in text for word in words)
    assert bool(text) is bool(words)
    assert all(finding.fix is None for finding in turns(profile))


def test_a_server_that_renders_nothing_for_us(peer, nobody):
    """Nothing is said."""
    assert asking.learned(Site(nobody), UNKNOWN) is UNKNOWN
    assert asking.learned(Site(peer({}).url), UNKNOWN) is UNKNOWN


def test_a_server_that_wants_a_model_is_told_one(peer):
    """A router of llama-server, say: the first question is asked again with the model."""
    server = peer({"/apply-template": (400, {"error": "model name is missing"})})
    assert asking.learned(Site(server.url), UNKNOWN, model="m") is UNKNOWN
    assert server.asked == ["/apply-template"] * 2 + ["/tokenize"]
