"""What the real server repairs by itself, and whether what we claim for us is the rest of it."""

import json

import pytest
from cacheproxy_demo.embedded import write_model

from cacheproxy.core.adapt.late import place
from cacheproxy.core.conversation.usage import usage_of
from cacheproxy.core.conversation.verdict import spared_tokens
from cacheproxy.core.judge.evidence import Before, Evidence, as_repaired, as_unaided
from cacheproxy.core.judge.judge import judge
from cacheproxy.core.kinds.placement import Late, alike
from cacheproxy.core.kinds.profile import Profile, ServerFacts
from cacheproxy.core.prompt.prompt import PromptOrder, prompt_of
from cacheproxy.http_client import Site
from cacheproxy.testing import request
from tests import needs

from .replay import PATHS, TOLERANCE, erase, start_server
from .templates import TEMPLATES
from .test_placement import LONG, conversation

pytestmark = pytest.mark.llama

PROFILE = Profile(server=ServerFacts("llama-server"), order=PromptOrder.SYSTEM_FIRST)
HEADER = "x-anthropic-billing-header: cc_version=2.1.114.{}; cc_entrypoint=cli; cch={};"
REST = "You are an agent. Read the file and say what it does. " * 20
PAIRS = {
    "another cch of five": (("9a3", "2ca14"), ("9a3", "b2c81")),
    "another cch of six": (("9a3", "2ca140"), ("9a3", "b2c811")),
    "another version": (("9a3", "2ca14"), ("1b2", "2ca14")),
}


def body_of(api, version, cch):
    header, user = HEADER.format(version, cch), {"role": "user", "content": "go on"}
    if api == "messages":
        system = [{"type": "text", "text": text} for text in (header, REST)]
        return {"max_tokens": 1, "system": system, "messages": [user]}
    said = f"{header}\n{REST}"
    if api == "chat":
        return {"max_tokens": 1, "messages": [{"role": "system", "content": said}, user]}
    return {"max_output_tokens": 1, "instructions": said, "input": [user]}


def ask(url, path, body):
    return usage_of(Site(url).tell(path, {"model": "random"} | body))


@pytest.mark.parametrize("api", PATHS)
@pytest.mark.parametrize("pair", PAIRS)
def test_a_header_that_we_take_for_repaired_costs_nothing(llama, api, pair):
    """And one that we do not costs the prompt."""
    erase(llama.url)
    path = PATHS[api]
    bodies = [body_of(api, *values) for values in PAIRS[pair]]
    prompts = [prompt_of(request(body, path), PromptOrder.SYSTEM_FIRST) for body in bodies]
    dialect = request(bodies[0], path).dialect
    one, other = (as_repaired(prompt, dialect, PROFILE) for prompt in prompts)
    first, second = (ask(llama.url, path, body) for body in bodies)
    assert first.reused == 0
    is_whole = second.reused >= first.prompt - TOLERANCE
    assert is_whole is (one == other)


@pytest.fixture
def hoisting(tmp_path):
    """A server whose template moves late system messages to the head."""
    needs.llama()
    text = "\n".join(LONG)
    model = write_model(tmp_path / "hoist.gguf", text=text, template=TEMPLATES["hoist"])
    with start_server(model, tmp_path, sampling__ignore_eos=True) as server:
        yield server


def claimed(url, bodies, edit, path, profile):
    """Send ``bodies`` as they are, then as ``edit`` makes them.

    Return by how much the second way evaluated less, and what of it we claim.
    """
    erase(url)
    direct = [ask(url, path, body) for body in bodies]
    erase(url)
    claims, through, before = 0, [], None
    for body in bodies:
        came = request(body, path)
        sent = edit(came)
        through.append(ask(url, path, sent.json))
        prompts = [prompt_of(each, PromptOrder.SYSTEM_FIRST) for each in (sent, came)]
        unaided = as_unaided(prompts[1], sent.dialect, profile)
        first = before is None
        verdict = judge(Evidence(before, prompts[0], unaided, through[-1], is_first=first))
        claims += spared_tokens(through[-1].reused, verdict) or 0
        before = Before(prompts[0], unaided, through[-1].prompt)
    less = sum(one.evaluated for one in direct) - sum(one.evaluated for one in through)
    return less, claims


@pytest.mark.parametrize("api", PATHS)
def test_what_placing_is_credited_with_is_what_it_spared(hoisting, api):
    """Measured with and without: within a tenth, as places are in characters."""
    placement = alike(Late.HOISTED, "test")
    profile = Profile(server=ServerFacts("llama-server"), placement=placement)
    bodies = [json.loads(json.dumps(body)) for body in conversation(api)]

    def edit(came):
        return place(came, placement)[0]

    less, claims = claimed(hoisting.url, bodies, edit, PATHS[api], profile)
    assert less > 3000
    assert claims == pytest.approx(less, rel=0.1)


@pytest.mark.parametrize("api", PATHS)
@pytest.mark.parametrize("pair", PAIRS)
def test_what_a_constant_header_is_credited_with_is_what_it_spared(llama, api, pair):
    """Nothing where the server would have repaired it."""
    bodies = [body_of(api, *values) for values in PAIRS[pair]]

    def edit(came):
        text = came.body.decode()
        for values in PAIRS[pair]:
            text = text.replace(HEADER.format(*values), HEADER.format("0", "00000"))
        return came.with_text(text)

    less, claims = claimed(llama.url, bodies, edit, PATHS[api], PROFILE)
    assert claims == pytest.approx(less, abs=30 + TOLERANCE)
    is_repaired = api == "messages" and pair == "another cch of five"
    assert (claims == 0) is is_repaired
