"""Plan.of: what is asked of a request, by whose it is, however often that was asked before."""

from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from cacheproxy.core.conversation.plan import Plan, SessionHook
from cacheproxy.core.prompt.client import Client, Clients
from cacheproxy.core.rules.built_in import BUILT_IN
from cacheproxy.core.rules.rule import Rule
from cacheproxy.testing import request

HEAD = "You are Mine."
MINE = Client("mine", agents=("mine-cli/",), headers=("X-Mine",), head=(HEAD,))
OTHER = Client("other", headers=("x-other",), lines=("Other's own line",))
RULES = (
    Rule("every", "system", "a", "b", literals=("is-in-all",)),
    Rule("mine", "system", "a", "b", literals=("of-mine",), client=MINE),
    Rule("strict", "system", "a", "b", client=replace(MINE, must_begin=f"{HEAD} Be")),
    Rule("pin", "system", "a", pin=True, client=OTHER),
    *BUILT_IN,
)
HOOK = SessionHook("hook", lambda _: None, client=OTHER)
ALL = {"every", "tools-as-before", "calls-as-before"}
CASES = (  # headers, system text, path; whose plan, its rules beside those that are for all
    ({"User-Agent": "mine-cli/1"}, "x", "/v1/messages", "mine", {"mine"}),
    ({"User-Agent": "mine-cli/1"}, f"{HEAD} Be", "/v1/messages", "mine", {"mine", "strict"}),
    ({"User-Agent": "mine-cli/2", "x-mine": "1"}, "x", "/v1/messages", "mine", {"mine"}),
    ({"User-Agent": "openai/1"}, HEAD, "/v1/messages", "mine", {"mine"}),
    ({"User-Agent": "openai/1"}, HEAD, "/elsewhere", "", set()),
    ({"User-Agent": "openai/1"}, "x", "/v1/messages", "", set()),
    ({"User-Agent": "openai/1", "x-other": ""}, "x", "/v1/messages", "other", {"pin"}),
    ({"User-Agent": "openai/1"}, "x\nOther's own line", "/v1/messages", "other", {"pin"}),
    ({"User-Agent": "mine-cli/1", "x-other": ""}, "x", "/v1/messages", "mine", {"mine", "pin"}),
    ({}, "x", "/v1/messages", "", set()),
)


@given(st.lists(st.sampled_from(CASES), max_size=9))
@example([CASES[4], CASES[3]])
def test_each_request_is_asked_what_its_clients_rules_ask(cases):
    """Those of the same marks share a plan, and it is remembered; the prompt is read each time."""
    plan = Plan(RULES, [HOOK], Clients((MINE, OTHER)))
    for headers, system, path, name, rules in cases:
        body = {"system": f"{system} of-mine"}
        asked = plan.clients.introduce(request(body, path, headers))
        own = plan.of(asked)
        found = {one.rule.name for one in (*own.plain, *own.pins, *own.of_calls, *own.of_tools)}
        assert (own.client, found) == (name, ALL | rules)
        assert {rule.name for rule in own.fields.rules} == rules & {"pin"}
        assert [hook.plugin for hook in own.hooks] == ["hook"] * ("pin" in rules)
        assert asked.literals.present == ({"of-mine"} if "mine" in rules else set())
        assert own is plan.of(asked)
        edited = asked.with_text('{"system": "another"}')
        assert OTHER.sent(edited) == ("pin" in rules), "whose it is was told by what came"
        assert MINE.sent(edited) == ("mine" in rules)
