"""What is advised: for each cause, at each kind of server, with each client."""

from __future__ import annotations

import pytest

from cacheproxy.agents.setups import CLIENTS
from cacheproxy.core.conversation.verdict import Evidence, Judgement, Reason, Rewrite, Verdict
from cacheproxy.core.diff.kind import Kind
from cacheproxy.core.judge.advice import SET_UP, Changed, advice
from cacheproxy.core.server.flags import KINDS, of_kind
from cacheproxy.core.server.identify import LLAMA_SERVER, Server
from cacheproxy.core.server.profile import UNKNOWN, Memory, Profile, Reporting, Thinking, Thoughts

OTHERS, SLOTS, RESTARTED = Evidence.OTHERS, Evidence.SLOTS, Evidence.RESTARTED
ALL_KINDS = [flags.name for flags in KINDS]
OWN = {
    "llama-server": ("--cache-ram", "--slot-prompt", "--checkpoint-min-step", "--swa-full"),
    "vLLM": ("--gpu-memory", "--kv-offloading", "--max-model-len", "--enable-prompt-tokens"),
    "SGLang": ("--mem-fraction", "--enable-hierarchical", "--enable-cache-report"),
    "Ollama": ("OLLAMA_",),
    "mlx-lm": ("--prompt-cache", "--chat-template-args"),
    "LM Studio": ("Idle TTL",),
    "transformers serve": (),
}


def broke(reason, **more):
    return Verdict(Judgement.BREAK, reason, **more)


def at(kind, **more):
    return Profile(server=Server(kind), **more)


def told(verdict, profile=UNKNOWN, client="", changed=Changed()):  # noqa: B008 (frozen)
    return [f"{one.do}: {one.why}" for one in advice(verdict, profile, client, changed)]


@pytest.mark.parametrize("judgement", [Judgement.OK, Judgement.COLD, Judgement.COMPACTED])
def test_where_all_is_well_nothing_is_advised(judgement):
    assert told(Verdict(judgement), at(LLAMA_SERVER)) == []


@pytest.mark.parametrize("kind", [*ALL_KINDS, "model server", "TabbyAPI"])
@pytest.mark.parametrize("reason", list(Reason))
def test_every_cause_has_advice_and_never_that_of_another_server(reason, kind):
    """Whatever the template did."""
    profile = at(kind, thoughts=Thoughts(Thinking.ON_REQUEST, ("preserve_thinking", True)))
    for rewrite in (None, *Rewrite):
        verdict = broke(reason, rewrite=rewrite, evidence=(OTHERS, SLOTS))
        text = "\n".join(told(verdict, profile, "claude"))
        assert text
        for server, words in OWN.items():
            if server != kind:
                assert not any(word in text for word in words), (server, text)


def test_a_restart_happens_once():
    """At any server."""
    for kind in ALL_KINDS:
        (line,) = told(broke(Reason.EVICTED, evidence=(RESTARTED, OTHERS)), at(kind))
        assert line == "nothing: the server was restarted: it happens once"


@pytest.mark.parametrize(
    ("evidence", "has_ram", "flags"),
    [
        ((OTHERS,), True, ["--slot-prompt-similarity 0.5"]),
        ((OTHERS,), None, ["--slot-prompt-similarity 0.5", "--cache-ram 8192"]),
        ((OTHERS,), False, ["--slot-prompt-similarity 0.5", "--cache-ram 8192", "--parallel 4"]),
        ((SLOTS,), False, ["--cache-ram 8192", "--parallel 4"]),
        ((SLOTS,), True, ["--cache-ram 16384"]),
        ((Evidence.FULL,), True, ["--cache-ram 16384"]),
    ],
)
def test_llama_server_gets_the_flags_that_fit_its_memory(evidence, has_ram, flags):
    profile = at(LLAMA_SERVER, memory=Memory(has_ram=has_ram))
    lines = told(broke(Reason.EVICTED, evidence=evidence), profile)
    assert [line.split(": ")[:2] for line in lines] == [["llama-server", flag] for flag in flags]


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("vLLM", "--gpu-memory-utilization 0.95"),
        ("SGLang", "--enable-hierarchical-cache"),
        ("Ollama", "OLLAMA_KEEP_ALIVE=-1"),
        ("mlx-lm", "--prompt-cache-size 20"),
        ("mlx_lm.server", "--prompt-cache-size 20"),
        ("LM Studio", "a longer Idle TTL"),
        ("TabbyAPI", "no setting that gives prompts more memory of TabbyAPI is known here"),
        ("model server", "no setting that gives prompts more memory of this server is known here"),
    ],
)
def test_more_memory_is_spelt_as_the_server_spells_it(kind, word):
    """Where nothing is known, that is said."""
    assert any(word in line for line in told(broke(Reason.EVICTED), at(kind)))


@pytest.mark.parametrize(
    ("kind", "start"),
    [
        ("llama-server", "llama-server: --chat-template-kwargs '{\"clear_thinking\": false}': "),
        ("vLLM", "vLLM: --default-chat-template-kwargs '{\"clear_thinking\": false}': "),
        ("mlx-lm", "mlx-lm: --chat-template-args '{\"clear_thinking\": false}': "),
        ("SGLang", 'the client: chat_template_kwargs {"clear_thinking": false} in its requests: '),
    ],
)
def test_thinking_is_kept_by_the_member_of_this_template(kind, start):
    """The flag is the server's; the client has to send it back, which Claude Code does."""
    thoughts = Thoughts(Thinking.ON_REQUEST, ("clear_thinking", False))
    verdict = broke(Reason.TEMPLATE_CHANGED, rewrite=Rewrite.THINKING)
    keeps, sends = told(verdict, at(kind, thoughts=thoughts), "cline")
    assert keeps.startswith(start)
    assert sends.startswith("the client: it has to send its reasoning back")
    _, sends = told(verdict, at(kind, thoughts=thoughts), "claude")
    assert "by itself" in sends


def test_a_template_that_cannot_keep_thinking_is_said_to():
    verdict = broke(Reason.TEMPLATE_CHANGED, rewrite=Rewrite.THINKING)
    cannot, own = told(verdict, at("vLLM", thoughts=Thoughts(Thinking.DROPPED)))
    assert cannot.startswith("nothing: this template cannot keep it")
    assert own.startswith("vLLM: --chat-template FILE")
    (line,) = told(verdict, at("vLLM"))
    assert line.startswith("see: cacheproxy doctor")


def test_what_else_a_template_does():
    def lines(rewrite, client=""):
        return told(broke(Reason.TEMPLATE_CHANGED, rewrite=rewrite), at(LLAMA_SERVER), client)

    assert [line.partition(": ")[0] for line in lines(Rewrite.HOISTED)] == ["the proxy"]
    assert "CLAUDE_CODE_TOTAL_TOKENS_REMINDER=off" in lines(Rewrite.HOISTED, "claude")[0]
    (tools,) = lines(Rewrite.TOOLS)
    assert tools.startswith("nothing: no cure")
    once, own = lines(Rewrite.CLOCK)
    assert once.endswith("the date that the template prints: one slow turn a day")
    assert own.startswith("llama-server: --chat-template-file FILE")


def test_a_checkpoint_is_no_matter_where_nothing_parts_the_prompts():
    """So what does comes first."""
    rule = Changed(kind=Kind.UUID, rules=("ids",))
    verdict = broke(Reason.CHECKPOINT, beneath=Reason.SYSTEM_CHANGED)
    first, step, window = told(verdict, at(LLAMA_SERVER), changed=rule)
    assert "--enable ids" in first
    assert "--checkpoint-min-step 256" in step
    assert "--swa-full" in window
    (line,) = told(broke(Reason.CHECKPOINT), at("vLLM"))
    assert line.startswith("nothing: ")


def test_a_context_that_ran_out():
    """The server's own flag, and the client's window."""
    profile = Profile(server=Server("Ollama", context=4096))
    server, client = told(broke(Reason.CONTEXT_SHIFTED), profile, "opencode")
    assert server.startswith("Ollama: OLLAMA_CONTEXT_LENGTH=N, or num_ctx")
    assert "4,096 tokens" in server
    assert "cacheproxy env opencode" in client


def test_only_clients_that_can_be_set_up_are_named_so():
    """For others a word stands for the name."""
    assert set(CLIENTS) == SET_UP
    (line,) = told(broke(Reason.CONTEXT_SHIFTED), client="openai-sdk")
    assert "cacheproxy env CLIENT" in line


def test_a_server_that_keeps_nothing():
    (line,) = told(broke(Reason.NOT_CACHED), at("vLLM"))
    assert "--no-enable-prefix-caching" in line
    (line,) = told(broke(Reason.NOT_CACHED), at("transformers serve"))
    assert line.startswith("nothing: transformers serve has no prompt cache")


def test_claude_code_has_a_switch_for_tools_that_come_later():
    """Others have none that is known."""
    first, *_ = told(broke(Reason.TOOLS_CHANGED), at(LLAMA_SERVER), "claude")
    assert first.startswith("Claude Code: ENABLE_TOOL_SEARCH=false")
    assert "ENABLE" not in "".join(told(broke(Reason.TOOLS_CHANGED), at(LLAMA_SERVER), "cline"))


@pytest.mark.parametrize(
    ("seen", "once"), [(None, True), ((1, 3), True), ((2, 61), True), ((10, 32), False)]
)
def test_a_date_that_changes_in_every_third_turn_does_not_change_once_a_day(seen, once):
    lines = told(broke(Reason.SYSTEM_CHANGED), changed=Changed(Kind.DATE, "client", seen=seen))
    assert ("nothing: it happens once a day; one slow turn" in lines) is once


@pytest.mark.parametrize(
    ("kind", "reporting", "flag"),
    [
        ("vLLM", Reporting.FLAGGED, "--enable-prompt-tokens-details"),
        ("SGLang", Reporting.UNKNOWN, "--enable-cache-report"),
    ],
)
def test_what_is_not_told_can_be(kind, reporting, flag):
    (line,) = told(Verdict(Judgement.UNKNOWN), at(kind, reporting=reporting))
    assert line == f"{kind}: {flag}: started with it, it says what it reused"


def test_a_change_is_one_where_its_cost_is_not_known():
    """What changed comes first."""
    verdict = Verdict(Judgement.UNKNOWN, Reason.SYSTEM_CHANGED)
    changed, says = told(verdict, at("vLLM"), changed=Changed(Kind.UUID, rules=("ids",)))
    assert "--enable ids" in changed
    assert "--enable-prompt-tokens-details" in says


def test_a_server_that_never_tells():
    (line,) = told(Verdict(Judgement.UNKNOWN), at("LM Studio", reporting=Reporting.NEVER))
    assert line == "nothing: LM Studio does not say what it reuses"
    assert told(Verdict(Judgement.UNKNOWN), at(LLAMA_SERVER, reporting=Reporting.ALWAYS)) == []


def test_a_kind_is_known_however_it_is_spelt():
    assert of_kind("lm-studio").name == "LM Studio"
    assert of_kind("").name == of_kind("model server").name == "this server"
    assert of_kind("KoboldCpp").name == "KoboldCpp"
