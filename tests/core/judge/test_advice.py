"""What is advised: for each cause, at each kind of server, with each client."""

from dataclasses import asdict
from pathlib import Path

import msgspec
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
from cacheproxy.core.kinds.known import BUILT_IN, kind_called
from cacheproxy.core.kinds.profile import (
    UNKNOWN,
    Memory,
    Profile,
    Reporting,
    ServerFacts,
    Thinking,
    ThinkingProfile,
)
from cacheproxy.core.prompt.client import Client
from tests import golden

FILE = Path(__file__).with_name("advice.txt")
OTHERS, SLOTS, RESTARTED, FULL = Sign.OTHERS, Sign.SLOTS, Sign.RESTARTED, Sign.FULL
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


def broke(reason, **more):
    return Verdict(Judgement.BREAK, reason, **more)


def at(kind, *, context=None, **more):
    return Profile(server=ServerFacts(kind, context=context), **more)


def llama(has_ram=None, slots=None):
    return at("llama-server", memory=Memory(has_ram=has_ram, slots=slots))


def told(verdict, profile=UNKNOWN, client=None, changed=Changed()):  # noqa: B008 (frozen)
    return [f"{one.do}: {one.why}" for one in advice(verdict, profile, client, changed)]


@pytest.mark.parametrize("kind", [*ALL_KINDS, "model server", "TabbyAPI"])
@pytest.mark.parametrize("reason", list(Reason))
def test_every_cause_has_advice_and_never_that_of_another_server(reason, kind):
    profile = at(kind, thoughts=ThinkingProfile(Thinking.ON_REQUEST, ("preserve_thinking", True)))
    for rewrite in (None, *Rewrite):
        verdict = broke(reason, rewrite=rewrite, evidence=(OTHERS, SLOTS))
        text = "\n".join(told(verdict, profile, EXAMPLE))
        assert text
        for server, words in OWN.items():
            if server != kind:
                assert not any(word in text for word in words), (server, text)


ON_REQUEST = ThinkingProfile(Thinking.ON_REQUEST, ("clear_thinking", False))
DROPPED = ThinkingProfile(Thinking.DROPPED)
TEMPLATE = {each: broke(Reason.TEMPLATE_CHANGED, rewrite=each) for each in (None, *Rewrite)}
THINKING, HOISTED = TEMPLATE[Rewrite.THINKING], TEMPLATE[Rewrite.HOISTED]
LOST = broke(Reason.EVICTED)
TAKEN, EMPTIED = (broke(Reason.EVICTED, evidence=(sign,)) for sign in (OTHERS, SLOTS))
MESSAGES, SYSTEM = broke(Reason.MESSAGES_CHANGED), broke(Reason.SYSTEM_CHANGED)
SHIFTED, OFF = broke(Reason.CONTEXT_SHIFTED), broke(Reason.NOT_CACHED)
CUT = Verdict(Judgement.CUT, Reason.CUT)
MODEL, TOOLS = broke(Reason.MODEL_CHANGED), broke(Reason.TOOLS_CHANGED)
UNTOLD = Verdict(Judgement.UNKNOWN)
IDS = Changed(ChangeKind.UUID, rules=("ids",))


def dated(*seen):
    return Changed(ChangeKind.DATE, "client", seen=seen or None)


CASES = {
    "all is well": [(Verdict(one),) for one in (Judgement.OK, Judgement.COLD, Judgement.COMPACTED)],
    "llama-server: the flags that fit its memory and what shows the eviction": [
        (TAKEN, llama(has_ram=True)),
        (TAKEN, llama()),
        (TAKEN, llama(has_ram=False)),
        (EMPTIED, llama(has_ram=False)),
        (EMPTIED, llama(has_ram=True)),
        (broke(Reason.EVICTED, evidence=(FULL,)), llama(has_ram=True)),
        (TAKEN, llama(slots=1)),  # likeness decides nothing there: only the RAM cache helps
    ],
    "a restart happens once, at any server": [
        (broke(Reason.EVICTED, evidence=(RESTARTED, OTHERS)), at("vLLM"))
    ],
    "more memory, as the server spells it": [
        (LOST, at(kind)) for kind in (*ALL_KINDS[1:], "TabbyAPI", "model server")
    ],
    "thinking is kept by the proxy, and by a flag that not all servers have": [
        (THINKING, at("llama-server", thoughts=ON_REQUEST)),
        (THINKING, at("SGLang", thoughts=ON_REQUEST), EXAMPLE),
        (THINKING, at("vLLM", thoughts=DROPPED)),
        (THINKING, at("vLLM")),
    ],
    "what else a template does": [
        (HOISTED,),
        (HOISTED, UNKNOWN, EXAMPLE),
        *((TEMPLATE[each],) for each in (Rewrite.TOOLS, Rewrite.KEPT, Rewrite.OTHER, None)),
        (TEMPLATE[Rewrite.CLOCK], at("llama-server")),
        (broke(Reason.CHECKPOINT), at("vLLM")),
    ],
    "a context that ran out: the server's own flag, and the client's window": [
        (SHIFTED, at("Ollama", context=4096), SET_UP),
        (SHIFTED, at("llama-server", memory=Memory(context=8192))),
        (SHIFTED, UNKNOWN, EXAMPLE),
        (CUT, at("Ollama", context=4096), SET_UP),
        (CUT, at("LM Studio")),
        (CUT, at("llama-server", memory=Memory(context=8192, slots=4, is_unified=False))),
        (CUT, at("llama-server", memory=Memory(context=8192, slots=4, is_unified=True))),
    ],
    "a cache that is off": [(OFF, at("vLLM")), (OFF, at("transformers serve"))],
    "another model": [(MODEL, at("Ollama")), (MODEL, at("Ollama"), EXAMPLE)],
    "switches for tools that come later are the client's": [
        (TOOLS, UNKNOWN, EXAMPLE),
        (TOOLS,),
        (TOOLS, UNKNOWN, EXAMPLE, IDS),
        (TOOLS, UNKNOWN, EXAMPLE, Changed(ChangeKind.REORDERED, number=7)),
    ],
    "what is not told can be, at some servers": [
        (UNTOLD, at("vLLM", reporting=Reporting.FLAGGED)),
        (UNTOLD, at("SGLang")),
        (UNTOLD, at("LM Studio", reporting=Reporting.NEVER)),
        (UNTOLD, at("llama-server", reporting=Reporting.ALWAYS)),
    ],
    "what changed comes first": [
        # it parts the prompts, not that there is no checkpoint
        (broke(Reason.CHECKPOINT, beneath=SYSTEM.reason), at("llama-server"), None, IDS),
        (Verdict(Judgement.UNKNOWN, SYSTEM.reason), at("SGLang"), None, IDS),
    ],
    "whose matter a field is": [
        (MESSAGES, UNKNOWN, None, changed)
        for changed in (
            Changed(ChangeKind.UUID, rules=("ids",), on=("ids",)),
            *(Changed(ChangeKind.UUID, source=who) for who in ("user", "tool", "model")),
            Changed(ChangeKind.REORDERED, number=7),
            Changed(ChangeKind.REORDERED),
            Changed(ChangeKind.MOVED, number=7),
            Changed(ChangeKind.MOVED),
            Changed(ChangeKind.UUID, captures=("a b", "c")),
            Changed(ChangeKind.TEXT, captures=("a b", "c")),
        )
    ],
    "a date: once a day, unless it changes in more turns than that": [
        (SYSTEM, UNKNOWN, None, dated(*seen)) for seen in ((), (1, 3), (2, 61), (10, 32))
    ],
    "nothing to compare with, or another server answered": [
        (broke(Reason.PREVIOUS_NOT_FOUND),),
        (broke(Reason.MOVED),),
        (broke(Reason.UNKNOWN),),
    ],
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_advised(name):
    """The most helpful first; in the file each case begins with a line for the cause."""
    texts = []
    for case in CASES[name]:
        verdict, profile, client, changed = (*case, *(UNKNOWN, None, Changed())[len(case) - 1 :])
        about = [verdict.rewrite or verdict.reason or verdict.judgement, *verdict.evidence]
        about += [f"{key} {value}" for key, value in asdict(changed).items() if value]
        about += [profile.server.kind] if profile.server else []
        texts += [f"# {', '.join(about)}", *told(verdict, profile, client, changed)]
    golden.agrees(FILE, name, "\n".join(texts))


def test_no_advice_is_kept_that_no_test_has():
    golden.complete(FILE, CASES)


def test_names_of_servers():
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
    verdict = broke(Reason.TOOLS_CHANGED, where=where)
    assert command(7, verdict) == f"cacheproxy diagnose 7{' --propose' * proposes}"
    line = told(verdict, changed=Changed(kind, number=7))[0]
    assert (line == "a rule: cacheproxy diagnose 7 --propose") is (kind is ChangeKind.REORDERED)
    assert may_be_curable("tools_changed", kind) is proposes


@pytest.mark.parametrize("source", ["user", "model", "tool"])
def test_no_rule_is_offered_for_what_the_client_did_not_write(source):
    """The command would say that there is none; nor where the reason alone is known."""
    where = Break("/messages/1", 0, TokenCount(11, "estimated"), ChangeKind.CLOCK, "a", "b", source)
    assert command(7, broke(Reason.MESSAGES_CHANGED, where=where)) == "cacheproxy diagnose 7"
    clients = msgspec.structs.replace(where, source="client")
    assert "--propose" in command(7, broke(Reason.MESSAGES_CHANGED, where=clients))
    assert not may_be_curable("messages_changed", ChangeKind.CLOCK)
