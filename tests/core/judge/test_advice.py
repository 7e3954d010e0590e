"""What is advised: for each cause, at each kind of server, with each client."""

from __future__ import annotations

import pytest

from cacheproxy.core.conversation.verdict import (
    Break,
    Judgement,
    Reason,
    Rewrite,
    Sign,
    TokenCount,
    Verdict,
)
from cacheproxy.core.diff.kind import ChangeKind
from cacheproxy.core.judge.advice import Changed, advice, may_be_curable
from cacheproxy.core.judge.explain import command
from cacheproxy.core.prompt.client import Client
from cacheproxy.core.servers.kinds import BUILT_IN, kind_called
from cacheproxy.core.servers.profile import (
    UNKNOWN,
    Memory,
    Profile,
    Reporting,
    ServerFacts,
    Thinking,
    ThinkingProfile,
)

OTHERS, SLOTS, RESTARTED = Sign.OTHERS, Sign.SLOTS, Sign.RESTARTED
ALL_KINDS = [kind.name for kind in BUILT_IN]
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


EXAMPLE = Client(
    "example",
    advice=(
        ("tools_changed", "Example", "--all-tools: all of them from the start"),
        ("tools_changed", "Example", "--wait: for those of MCP servers"),
        ("model_changed", "the client", "one model for all requests"),
        ("system message hoisted", "Example", "--no-reminders: no such messages"),
    ),
)
SET_UP = Client("set-up", has_setup=True)
UNTOLD = Verdict(Judgement.UNKNOWN)


def at(kind, **more):
    return Profile(server=ServerFacts(kind), **more)


def told(verdict, profile=UNKNOWN, client=None, changed=Changed()):  # noqa: B008 (frozen)
    return [f"{one.do}: {one.why}" for one in advice(verdict, profile, client, changed)]


@pytest.mark.parametrize("judgement", [Judgement.OK, Judgement.COLD, Judgement.COMPACTED])
def test_where_all_is_well_nothing_is_advised(judgement):
    assert told(Verdict(judgement), at("llama-server")) == []


@pytest.mark.parametrize("kind", [*ALL_KINDS, "model server", "TabbyAPI"])
@pytest.mark.parametrize("reason", list(Reason))
def test_every_cause_has_advice_and_never_that_of_another_server(reason, kind):
    """Whatever the template did."""
    profile = at(kind, thoughts=ThinkingProfile(Thinking.ON_REQUEST, ("preserve_thinking", True)))
    for rewrite in (None, *Rewrite):
        verdict = broke(reason, rewrite=rewrite, evidence=(OTHERS, SLOTS))
        text = "\n".join(told(verdict, profile, EXAMPLE))
        assert text
        for server, words in OWN.items():
            if server != kind:
                assert not any(word in text for word in words), (server, text)


@pytest.mark.parametrize(
    ("evidence", "has_ram", "flags"),
    [
        ((OTHERS,), True, ["--slot-prompt-similarity 0.5"]),
        ((OTHERS,), None, ["--slot-prompt-similarity 0.5", "--cache-ram 8192"]),
        ((OTHERS,), False, ["--slot-prompt-similarity 0.5", "--cache-ram 8192", "--parallel 4"]),
        ((SLOTS,), False, ["--cache-ram 8192", "--parallel 4"]),
        ((SLOTS,), True, ["--cache-ram 16384"]),
        ((Sign.FULL,), True, ["--cache-ram 16384"]),
    ],
)
def test_llama_server_gets_the_flags_that_fit_its_memory(evidence, has_ram, flags):
    profile = at("llama-server", memory=Memory(has_ram=has_ram))
    lines = told(broke(Reason.EVICTED, evidence=evidence), profile)
    assert [line.split(": ")[:2] for line in lines] == [["llama-server", flag] for flag in flags]


def test_of_a_single_slot_every_prompt_takes_what_it_holds():
    """Likeness decides nothing there: only the RAM cache helps."""
    profile = at("llama-server", memory=Memory(slots=1))
    (line,) = told(broke(Reason.EVICTED, evidence=(OTHERS,)), profile)
    assert line.startswith("llama-server: --cache-ram 8192: ")


KEPT = ThinkingProfile(Thinking.ON_REQUEST, ("clear_thinking", False))
DROPPED = ThinkingProfile(Thinking.DROPPED)
FLAG = "'{\"clear_thinking\": false}'"
THINKING = broke(Reason.TEMPLATE_CHANGED, rewrite=Rewrite.THINKING)
LOST = broke(Reason.EVICTED)
IDS = Changed(ChangeKind.UUID, rules=("ids",))
OPTION = "the proxy: --keep-thinking yes"
DOCTOR = "see: cacheproxy doctor"


@pytest.mark.parametrize(
    ("verdict", "profile", "client", "lines"),
    [
        # a restart happens once, at any server
        (broke(Reason.EVICTED, evidence=(RESTARTED, OTHERS)), at("vLLM"), None, ["nothing: the s"]),
        # more memory is spelt as the server spells it; where nothing is known, that is said
        (LOST, at("vLLM"), None, ["vLLM: --gpu-memory-utilization 0.95", "vLLM: --kv-off"]),
        (LOST, at("SGLang"), None, ["SGLang: --mem", "SGLang: --enable-hierarchical-cache"]),
        (LOST, at("Ollama"), None, ["Ollama: OLLAMA_KEEP_ALIVE=-1", "Ollama: OLLAMA_NUM"]),
        (LOST, at("mlx_lm.server"), None, ["mlx-lm: --prompt-cache-size 20", "mlx-lm: --prompt"]),
        (LOST, at("LM Studio"), None, ["LM Studio: a longer Idle TTL"]),
        (LOST, at("TabbyAPI"), None, ["nothing: cacheproxy knows no setting of TabbyAPI that"]),
        (LOST, at("model server"), None, ["nothing: cacheproxy knows no setting of this server"]),
        # thinking is kept by the proxy, and by a flag that not all servers have
        (
            THINKING,
            at("llama-server", thoughts=KEPT),
            None,
            [OPTION, f"llama-server: --chat-template-kwargs {FLAG}: "],
        ),
        (
            THINKING,
            at("SGLang", thoughts=KEPT),
            EXAMPLE,
            [OPTION],
        ),
        (
            THINKING,
            at("vLLM", thoughts=DROPPED),
            None,
            ["nothing: this template cannot keep earlier reasoning", "vLLM: --chat-template FILE"],
        ),
        (THINKING, at("vLLM"), None, [DOCTOR]),
        # what else a template does
        (
            broke(Reason.TEMPLATE_CHANGED, rewrite=Rewrite.HOISTED),
            UNKNOWN,
            None,
            ["the proxy: --"],
        ),
        (
            broke(Reason.TEMPLATE_CHANGED, rewrite=Rewrite.HOISTED),
            UNKNOWN,
            EXAMPLE,
            ["Example: --no-reminders: no such messages", "the proxy: --placement auto"],
        ),
        (
            broke(Reason.TEMPLATE_CHANGED, rewrite=Rewrite.TOOLS),
            UNKNOWN,
            None,
            [("nothing: no fix is known")],
        ),
        (
            broke(Reason.TEMPLATE_CHANGED, rewrite=Rewrite.CLOCK),
            at("llama-server"),
            None,
            [
                ("nothing: if the template prints only the date"),
                "llama-server: --chat-template-file FILE",
            ],
        ),
        (broke(Reason.CHECKPOINT), at("vLLM"), None, ["nothing: "]),
        # a context that ran out: the server's own flag, and the client's window
        (
            broke(Reason.CONTEXT_SHIFTED),
            Profile(server=ServerFacts("Ollama", context=4096)),
            SET_UP,
            [
                "Ollama: OLLAMA_CONTEXT_LENGTH=N, or num_ctx in the Modelfile, larger than 4,096",
                "the client: cacheproxy env set-up tells the client when to compact",
            ],
        ),
        (broke(Reason.CONTEXT_SHIFTED), UNKNOWN, EXAMPLE, ["the client: cacheproxy env CLIENT"]),
        (broke(Reason.NOT_CACHED), at("vLLM"), None, ["vLLM: without --no-enable-prefix-caching"]),
        (
            broke(Reason.NOT_CACHED),
            at("transformers serve"),
            None,
            ["nothing: transformers serve"],
        ),
        (broke(Reason.MODEL_CHANGED), at("Ollama"), None, ["nothing", "Ollama: OLLAMA_MAX_LOADED"]),
        (
            broke(Reason.MODEL_CHANGED),
            at("Ollama"),
            EXAMPLE,
            ["nothing", "the client: one model", "Ollama: OLLAMA_MAX_LOADED"],
        ),
        # switches for tools that come later are the client's
        (
            broke(Reason.TOOLS_CHANGED),
            UNKNOWN,
            EXAMPLE,
            ["Example: --all-tools", "Example: --wait", "see all"],
        ),
        (
            broke(Reason.TOOLS_CHANGED),
            UNKNOWN,
            None,
            [
                "the client: if these are tools of MCP",
                ("see all: start the proxy with --capture FOLDER"),
            ],
        ),
        # what is not told can be, at some servers
        (
            UNTOLD,
            at("vLLM", reporting=Reporting.FLAGGED),
            None,
            ["vLLM: --enable-prompt-tokens"],
        ),
        (UNTOLD, at("SGLang"), None, ["SGLang: --enable-cache-report"]),
        (UNTOLD, at("LM Studio", reporting=Reporting.NEVER), None, ["nothing: LM Studio does not"]),
        (UNTOLD, at("llama-server", reporting=Reporting.ALWAYS), None, []),
    ],
)
def test_what_is_advised(verdict, profile, client, lines):
    """The most helpful first."""
    found = told(verdict, profile, client)
    assert len(found) == len(lines), found
    for line, start in zip(found, lines, strict=True):
        assert line.startswith(start)


@pytest.mark.parametrize(
    ("verdict", "lines"),
    [
        # what parts the prompts is the matter, not that there is no checkpoint
        (
            broke(Reason.CHECKPOINT, beneath=Reason.SYSTEM_CHANGED),
            ["a rule: ids", "llama-server: --checkpoint-min-step 256", "llama-server: --swa-full"],
        ),
        # a change is one where its cost is not known
        (Verdict(Judgement.UNKNOWN, Reason.SYSTEM_CHANGED), ["a rule: ids is installed but off"]),
    ],
)
def test_what_changed_comes_first(verdict, lines):
    found = told(verdict, at("llama-server"), changed=IDS)
    assert all(line.startswith(start) for line, start in zip(found, lines, strict=True)), found


@pytest.mark.parametrize(
    ("changed", "start"),
    [
        (Changed(ChangeKind.UUID, rules=("ids",), on=("ids",)), "the proxy: rule ids is on"),
        (Changed(ChangeKind.UUID, source="user"), "nothing: a user, a tool or the model wrote"),
        (Changed(ChangeKind.REORDERED, number=7), "a rule: cacheproxy diagnose 7 --propose"),
        (Changed(ChangeKind.REORDERED), "see all: start the proxy"),
        (
            Changed(ChangeKind.MOVED, number=7),
            "a rule: cacheproxy diagnose 7 --propose names a rule",
        ),
        (Changed(ChangeKind.MOVED), "see all: start the proxy"),
        (
            Changed(ChangeKind.UUID, captures=("a b",)),
            "a rule: cacheproxy diagnose --propose --from 'a",
        ),
    ],
)
def test_whose_matter_a_field_is(changed, start):
    (line,) = told(broke(Reason.MESSAGES_CHANGED), changed=changed)
    assert line.startswith(start)


@pytest.mark.parametrize(
    ("seen", "once"), [(None, True), ((1, 3), True), ((2, 61), True), ((10, 32), False)]
)
def test_a_date_that_changes_in_every_third_turn_does_not_change_once_a_day(seen, once):
    lines = told(
        broke(Reason.SYSTEM_CHANGED), changed=Changed(ChangeKind.DATE, "client", seen=seen)
    )
    assert ("nothing: this happens once a day and costs one slow turn" in lines) is once


def test_names_of_servers():
    """A kind is known however it is spelt."""
    assert kind_called("lm-studio").name == "LM Studio"
    assert kind_called("").called == kind_called("model server").called == "this server"
    assert kind_called("KoboldCpp").name == "KoboldCpp"


@pytest.mark.parametrize(
    ("kind", "proposes"),
    [
        (ChangeKind.UUID, True),
        (ChangeKind.REORDERED, True),
        (ChangeKind.MOVED, False),
        (ChangeKind.TEXT, False),
    ],
)
def test_the_log_proposes_what_the_advice_does(kind, proposes):
    """One cure in both, for a running proxy's turn."""
    where = Break("/tools/0", 0, TokenCount(11, "estimated"), kind, "a", "b")
    verdict = Verdict(Judgement.BREAK, Reason.TOOLS_CHANGED, where)
    assert command(7, verdict) == f"cacheproxy diagnose 7{' --propose' * proposes}"
    line = told(verdict, changed=Changed(kind, number=7))[0]
    assert (line == "a rule: cacheproxy diagnose 7 --propose") is (kind is ChangeKind.REORDERED)
    assert may_be_curable("tools_changed", kind) is proposes
