"""Whatever shape a body has, no rule of a package fails, and a second pass changes nothing."""

import json
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cacheproxy.core.rules.fold import normalize
from cacheproxy.testing import assert_idempotent, request
from tests.test_client_pins import ALL, VALUE

NAMES = sorted(folder.name for folder in (Path(__file__).parents[1] / "clients").iterdir())
FOUND = {name: import_module(f"cacheproxy_{name.replace('-', '_')}") for name in NAMES}
MODULES = {name: module for name, module in FOUND.items() if hasattr(module, "RULES")}
each_package = pytest.mark.parametrize("name", MODULES)
ODD = [
    "",
    "\n",
    " ",
    "\r\n",
    '"',
    "```json\n",
    "```\n",
    "}\n",
    "ü\ud83d",
    "hi",
    " 1=2;",
    "\n\na=b;",
]
WRITTEN = [
    "x-anthropic-billing-header: cc_version=2.1.114.9a3; cc_entrypoint=sdk-cli; cch=2ca14;",
    "x-anthropic-billing-header:cc_version=2.1.36;cch=2ca14",
    "x-anthropic-billing-header:",
    "[Wed 2026-02-18 20:48 UTC] ",
    "[Thu 2026-02-12 23:59] ",
    'Conversation info (untrusted metadata):\n```json\n{"message_id": "5"}\n```\n\n',
    "Conversation info (untrusted metadata):\n",
    'Sender (untrusted metadata):\n```json\n{"message_id": 5,\n',
    "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\na\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>",
    "<system-reminder>\nToday's date is now 2026-11-22.\n</system-reminder>",
    "Runtime: agent=main | session=agent:main:main | sessionId=5 | host=h | os=L (x64)",
    *(
        shape.replace(VALUE, one)
        for row in ALL
        for shape in row.shapes.values()
        for one in ("1", "2")
    ),
]
PATHS = st.sampled_from(
    ["/v1/messages", "/v1/chat/completions", "/v1/responses", "/api/chat", "/x"]
)
ROLES = st.sampled_from(["user", "system", "developer", "assistant", "tool", "", None])


def bodies(name):
    """Bodies of any shape, in which much stands that the rules of this package look for."""
    literals = [word for rule in MODULES[name].RULES for word in rule.literals]
    known = [text for text in WRITTEN if any(word in text for word in literals)]
    texts = st.lists(st.sampled_from([*ODD, *literals, *known]), max_size=6).map("".join)
    kinds = st.sampled_from(["text", "input_text", "tool_result"])
    block = st.builds(lambda kind, text: {"type": kind, "text": text}, kinds, texts)
    odd = st.sampled_from([None, 1, {}, {"type": "text"}, {"type": "text", "text": None}])
    content = st.one_of(
        texts,
        st.lists(block | odd, max_size=3),
        st.sampled_from([None, 1, True, {}]),
        texts.map(lambda text: {"0": {"type": "text", "text": text}}),
    )
    said = st.builds(lambda role, content: {"role": role, "content": content}, ROLES, content)
    messages = st.lists(said | st.sampled_from([None, 1, "x", [], {"role": "user"}]), max_size=5)
    members = dict.fromkeys(("system", "instructions"), content)
    members |= dict.fromkeys(("messages", "input"), messages | content)
    return st.fixed_dictionaries({"texts": st.just(literals)}, optional=members)


@each_package
@settings(max_examples=min(20, settings().max_examples))  # of each package; fuzz/ has more
@given(data=st.data())
def test_any_shape_is_survived_and_the_second_pass_changes_nothing(name, data):
    """By themselves, and with a turn before; the session can be asked for."""
    module, path = MODULES[name], data.draw(PATHS)
    first, second = request(data.draw(bodies(name)), path), request(data.draw(bodies(name)), path)
    assert_idempotent(module.RULES, first)
    assert_idempotent(module.RULES, first, second)
    if hasattr(module, "cacheproxy_session"):
        module.cacheproxy_session(first)


@each_package
def test_deep_nesting_is_left_alone(name):
    """A body too deep to read goes on as it came, and no rule fails."""
    deep = "[" * 200_000 + "]" * 200_000
    text = json.dumps("".join(WRITTEN[:4]))
    for member in ("system", "input"):
        body = f'{{"{member}":{text},"x":{deep}}}'
        result = normalize(request(body, "/v1/responses"), MODULES[name].RULES)
        assert (result.request.body, result.reports) == (body.encode(), ())
