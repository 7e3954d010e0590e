"""Which model server answers, what its counters and blocks tell (as on pages of vLLM 0.32).

And a router that keeps no conversation at one server: seen, and told what mends it.
"""

from contextlib import ExitStack
from dataclasses import replace

import pytest
from cacheproxy_demo.embedded import LlamaServer

from cacheproxy.child.process import ChildProxy
from cacheproxy.client_setup.finding import FindingState
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.dialects.chat import CHAT
from cacheproxy.core.kinds.profile import Memory, MemoryKind, Profile, ServerFacts
from cacheproxy.core.kinds.routers import ROUTERS
from cacheproxy.core.kinds.status import ServerFigures
from cacheproxy.doctor import server_checks
from cacheproxy.doctor.facts import Proxy, look_at_server, router_cure
from cacheproxy.doctor.report import Working, conclude
from cacheproxy.doctor.trial import ANY, PromptSender
from cacheproxy.http_client import Site
from tests import needs, transcript
from tests.doctor.builders import HEADS, facts
from tests.llama.routers import PAGE as ROUTERS_PAGE
from tests.llama.routers import recipes, routing
from tests.peer import speaking


def findings(url):
    return list(server_checks.answering(facts(upstream=look_at_server(Site(url)))))


@pytest.mark.llama
def test_the_real_server(llama):
    server, metrics = findings(llama.url)
    assert (server.name, server.state) == ("upstream", FindingState.OK)
    assert "llama-server" in server.text
    assert "4,096 context · 2 slots" in server.text
    assert (metrics.name, metrics.state) == ("metrics", FindingState.OK)


@pytest.mark.llama
def test_without_metrics_and_with_a_key(model):
    """Both are said, with what mends them; slots tell of work where counters do not."""
    with LlamaServer(model, n_ctx=512, endpoint_metrics=False, api_keys=["secret"]) as server:
        (locked,) = findings(server.url)
        key = {"Authorization": "Bearer secret"}
        seen = look_at_server(Site(server.url, key))
    assert (locked.state, locked.fix) == (FindingState.FAIL, "give the key with --api-key KEY")
    _, metrics = server_checks.answering(facts(upstream=seen))
    assert metrics.fix == "add --metrics to the llama-server command line"
    assert seen.look.sample is None
    assert len(seen.look.slots) == 1


def test_nobody_there(nobody):
    (finding,) = findings(nobody)
    assert finding.state is FindingState.FAIL
    assert finding.text == f"no model server answers at {nobody}: Connection refused"


LOADING = (503, {"error": {"message": "Loading model"}})
HEALTH = {"version": "0.1.0", "upstream": {}}


@pytest.mark.parametrize(
    ("pages", "words"),
    [
        ({}, "is not a model server: it"),
        (
            {"/v1/models": ["x"], "/props": {"a": 1}, "/api/version": None},
            ("is not a model server: it"),
        ),
        (dict.fromkeys(("/props", "/v1/models"), LOADING), "is not ready: Loading model"),
        (
            {"/_cacheproxy/health": HEALTH, "/v1/models": {"data": []}},
            "is a cacheproxy, not the model server behind it",
        ),
    ],
)
def test_what_is_no_model_server_or_not_yet(peer, pages, words):
    """llama-server answers 503 while it loads; through a proxy no server would need one."""
    (finding,) = findings(peer(pages).url)
    assert finding.state is FindingState.FAIL
    assert words in finding.text


PATH = "/v1/chat/completions"
PAGE = """\
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{{engine="0",model_name="tiny"}} {prompt}
vllm:prompt_tokens_cached_total{{engine="0",model_name="tiny"}} {reused}
vllm:prompt_tokens_cached_by_source_total{{engine="0",source="device"}} {reused}
vllm:generation_tokens_total{{engine="0",model_name="tiny"}} 9.0
vllm:cache_config_info{{_block_size_resolved="True",block_size="{block}",\
hash_block_size="None",mamba_block_size="{mamba}",enable_prefix_caching="{on}"}} 1.0
"""


class Vllm:
    """vLLM as far as doctor sees it: whole blocks, counters, and answers with or without a count.

    ``others``: prompt tokens of somebody else's requests beside each of ours. ``keeps``: whether
    any is reused, or told; ``on``: what its page says of that; ``at``: where its counter begins.
    """

    def __init__(self, block, *, flagged=False, mamba=None, others=0, keeps=True, on=None, at=0):
        self.block, self.flagged, self.mamba = block, flagged, mamba
        self.others, self.keeps = others, keeps
        self.on = keeps if on is None else on
        self.prompt, self.reused, self.longest = 0, at, 0
        self.seen = []

    def metrics(self, _):
        figures = {"prompt": float(self.prompt), "reused": float(self.reused)}
        return PAGE.format(**figures, block=self.block, mamba=self.mamba, on=self.on).encode()

    def chat(self, asked):
        words = " ".join(message["content"] for message in asked["messages"]).split()
        shared = 0
        for earlier in self.seen:
            same = [one == other for one, other in zip(words, earlier, strict=False)]
            shared = max(shared, same.index(False) if False in same else len(same))
        blocks = min(shared, len(words) - 1) // self.block - bool(self.mamba)
        reused = max(0, blocks * self.block) if self.keeps else 0
        self.seen.append(words)
        self.prompt += len(words) + self.others
        self.reused += reused
        self.longest = max(self.longest, len(words))
        usage = {"prompt_tokens": len(words), "completion_tokens": 1}
        if self.flagged:
            usage["prompt_tokens_details"] = {"cached_tokens": reused}
        return {"choices": [], "usage": usage}

    @property
    def pages(self):
        models = {"data": [{"id": "tiny", "owned_by": "vllm"}]}
        return {PATH: self.chat, "/metrics": self.metrics, "/v1/models": models}


@pytest.fixture
def tried(peer):
    """Return the trial on such a server, and the server."""
    billing = pytest.importorskip("cacheproxy_claude_code.billing")

    def tried(block, **more):
        server = Vllm(block, **more)
        site = Site(peer(server.pages).url)
        known = look_at_server(site).profile
        sender = PromptSender(
            upstream=site,
            counts=True,
            is_off=known.reuses is False,
            memory=known.memory,
            model="tiny",
            heads=HEADS,
        )
        sender.rules = [billing.BILLING_HEADER]
        return sender.measure(CHAT, "x"), server

    return tried


def check(trial):
    return next(server_checks.reuse(facts("vLLM", trials=(trial,))))


FLAG = "start vLLM with --enable-prompt-tokens-details"


@pytest.mark.parametrize("flagged", [True, False])
@pytest.mark.parametrize("block", [16, 1024])
def test_answers_without_a_count_are_measured_by_the_counters(tried, block, flagged):
    """Large blocks get a longer prompt. The flag is named that has the answers say it."""
    trial, server = tried(block, flagged=flagged)
    assert check(trial).state is FindingState.OK
    assert trial.second.is_counted is not flagged
    assert trial.second.usage.reused == trial.second.whole
    assert trial.second.whole % block == 0
    assert server.longest < 3000
    _, *unsaid = server_checks.reuse(facts("vLLM", trials=(trial,)))
    assert [(one.state, one.fix) for one in unsaid] == [(FindingState.WARN, FLAG)] * (not flagged)


def test_where_others_are_at_work_too_the_counters_say_nothing_of_one(tried):
    trial, _ = tried(16, others=40)
    assert not trial.is_measured
    finding = check(trial)
    assert (finding.state, finding.fix) == (FindingState.WARN, FLAG)
    assert "does not say what it reused" in finding.text


@pytest.mark.parametrize("flagged", [True, False])
def test_a_prompt_shorter_than_a_block_tells_nothing(tried, nobody, flagged):
    """As with hybrid models; it is not made longer than is bearable, and is no verdict."""
    trial, server = tried(7808, flagged=flagged)
    assert server.longest < 1000
    finding = check(trial)
    assert (finding.state, finding.fix) == (FindingState.WARN, None)
    assert (
        "too short for this test: the server reuses only whole blocks of 7,808 tokens"
    ) in finding.text
    conclusion = conclude(facts("vLLM", proxy=Proxy(nobody), trials=(trial,)), ())
    assert conclusion.answer is Working.NOT_MEASURED
    assert "shorter than the blocks" in conclusion.text


def test_a_cache_that_is_off_is_off_by_vllms_own_flag(tried):
    trial, _ = tried(16, keeps=False)
    finding = check(trial)
    assert finding.state is FindingState.FAIL
    assert finding.fix == (
        "start vLLM without --no-enable-prefix-caching, or try again when the server is idle"
    )


@pytest.mark.parametrize("at", [0, 4711])
@pytest.mark.parametrize("on", [True, "not told"])
def test_a_counter_that_never_moves_proves_nothing(tried, nobody, on, at):
    """VLLM's may be frozen though prompts are reused; its own page says that the cache is on."""
    trial, _ = tried(16, keeps=False, on=on, at=at)
    finding = check(trial)
    assert (finding.state, finding.fix) == (FindingState.WARN, FLAG)
    assert "counter of reused tokens never moved, which proves nothing" in finding.text
    conclusion = conclude(facts("vLLM", proxy=Proxy(nobody), trials=(trial,)), ())
    assert conclusion.answer is Working.NOT_MEASURED


def test_no_flag_is_advised_for_a_cache_that_is_said_to_be_on(tried):
    """The answers say that nothing was reused, the page that prompts are looked up."""
    trial, _ = tried(16, keeps=False, on=True, flagged=True)
    known = Profile(server=ServerFacts("vLLM"), reuses=True)
    finding, *_ = server_checks.reuse(facts("vLLM", profile=known, trials=(trial,)))
    assert finding.state is FindingState.FAIL
    assert "--no-enable" not in finding.fix


def test_what_is_reused_of_whole_blocks():
    known = {"ANY": ANY, "Memory": Memory}
    transcript.holds("blocks.txt", globals() | known)


@pytest.mark.parametrize(("mamba", "is_hybrid"), [("None", False), ("448", True)])
def test_the_blocks_are_told_by_the_page(peer, mamba, is_hybrid):
    site = Site(peer(Vllm(448, mamba=mamba).pages).url)
    memory = Memory(MemoryKind.BLOCKS, block=448, is_hybrid=is_hybrid)
    assert look_at_server(site).profile.memory == memory
    assert PromptSender(upstream=site, counts=True).figures().prompt == 0
    assert PromptSender(upstream=site).figures() == ServerFigures()


@pytest.mark.parametrize("page", [b"", b"\xff\x00{", b"vllm:cache_config_info{} 1\n"])
def test_a_page_that_says_nothing(peer, nobody, page):
    for site in (Site(peer({"/metrics": page}).url), Site(nobody)):
        counters = PromptSender(upstream=site, counts=True)
        assert counters.figures() == ServerFigures()
        assert counters.with_reuse(Usage(640), ServerFigures()) == (Usage(640), False)


ROUTER_PAGES = {
    "vllm-router": {"/list_workers": {"urls": []}, "/workers": {"workers": []}},
    "SMG": {"/workers": {"workers": []}, "/v1/models": {"data": [{"owned_by": "self_hosted"}]}},
    "sglang-router": {"/workers": {"workers": []}, "/v1/models": {"data": [{"owned_by": "local"}]}},
    "LiteLLM": {"/health/liveliness": "I'm alive!"},
}
"""As the real ones answer: vllm-router 0.1.17, smg 1.13.0, sglang-router 0.3.2, LiteLLM 1.106.2."""


@pytest.fixture(scope="module")
def three(model):
    """Three servers."""
    with ExitStack() as stack:
        yield [stack.enter_context(LlamaServer(model, n_ctx=8192)).url for _ in range(3)]


def haproxy(*, sticks):
    """The page's HAProxy; without its lines that keep a conversation."""
    recipe = recipes()["HAProxy"]
    lines = recipe.files["haproxy.cfg"].splitlines()
    kept = [line for line in lines if sticks or not line.strip().startswith("stick")]
    return recipe._replace(files={"haproxy.cfg": "\n".join(kept) + "\n"})


TRIALS = 4
"""Between two prompts of a trial the proxy asks for pages, too: in one of ten all prompts that
are compared come to one server by chance."""


@pytest.mark.parametrize(("sticks", "named"), [(False, True), (True, False), (True, True)])
def test_a_router_that_takes_turns_is_seen(three, tmp_path, *, sticks, named):
    """Neither half is enough: the router must read the key, and the proxy send it."""
    needs.program("haproxy", "/usr/sbin/haproxy")
    recipe = haproxy(sticks=sticks)
    options = recipe.options if named else ()
    with (
        routing(recipe, three, tmp_path) as url,
        ChildProxy(url, "--placement", "quiet", *options) as proxy,
    ):
        through = Site(proxy.url)
        sender = PromptSender(upstream=Site(url), proxy=through, model="random", heads=HEADS)
        trials = (sender.measure(CHAT, f"{sticks}{named}{number}") for number in range(TRIALS))
        trial = next((one for one in trials if one.has_several), None)
    assert (trial is None) is (sticks and named)
    if trial is not None:
        known = facts(trials=(trial,), router_cure=router_cure(Site(three[0])))
        finding = next(server_checks.reuse(known))
        assert finding.state is FindingState.FAIL
        assert "it and another did not. Several" in finding.text
        assert "--session-header X-Conversation-Key" in finding.fix


def test_a_server_that_keeps_nothing_is_no_router(three, model):
    """It was sent as often, and never reused."""
    with LlamaServer(model, n_ctx=8192, n_cache_reuse=0) as server:
        sender = PromptSender(upstream=Site(server.url), model="random", heads=HEADS)
        trial = sender.measure(CHAT, "one")
    assert not trial.has_several
    lost = replace(trial, second=trial.first, same=trial.first, repeated=trial.first)
    assert not lost.has_several
    assert replace(lost, repeated=trial.same).has_several


@pytest.mark.parametrize("router", ROUTERS, ids=lambda router: router.name)
def test_each_is_told_by_its_pages_and_gets_its_own_lines(router, peer):
    """The lines are those of the page, where they were run."""
    pages = ROUTER_PAGES.get(router.name)
    if pages is None:
        head = f"HTTP/1.1 200 OK\r\nServer: {router.name}/1.2\r\nContent-Length: 2\r\n\r\n{{}}"
        with speaking(head.encode()) as url:
            assert router_cure(Site(url)) == router.cure
    else:
        assert router_cure(Site(peer(pages).url)) == router.cure
    section = ROUTERS_PAGE.read_text().split(f"### {router.name}\n")[1].split("\n### ")[0]
    assert router.line in section.replace("\\\n", " ")
    assert f"--session-header {router.header}{router.more}" in ROUTERS_PAGE.read_text()


def test_another_gets_the_general_line(peer):
    assert "docs/fleet.md has the lines for each router" in router_cure(Site(peer({}).url))
