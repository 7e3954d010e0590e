"""What the checks look at, built by function."""

from cacheproxy.client_setup.checkup import Checkup, Volatile
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.dialects.chat import CHAT
from cacheproxy.core.judge.advice import LEFT
from cacheproxy.core.kinds.placement import Late, alike
from cacheproxy.core.kinds.profile import Profile, ServerFacts
from cacheproxy.core.kinds.status import Look, Sample, ServerFigures, UpstreamState
from cacheproxy.core.prompt.client import Client
from cacheproxy.doctor.facts import CheckedClient, Examination, Proxy, SeenUpstream
from cacheproxy.doctor.record import Record
from cacheproxy.doctor.trial import Shot, Trial
from cacheproxy.plugin.package import Package
from cacheproxy.plugin.packages import Configured, Packages
from cacheproxy.record.row import rows_in

RULE = "claude-billing-header"


def head(version, cch):
    return (
        f"x-anthropic-billing-header: cc_version=2.1.285.{version}; cc_entrypoint=cli; cch={cch};"
    )


HEADS = Volatile(
    "billing header", (RULE,), (head("1a2", "a1b2c"), head("3b4", "d3e4f"), head("5c6", "0a9b8"))
)
"""What Claude Code's package says of its header, in short."""
CLIENT = Client(
    "claude",
    title="Claude Code",
    has_setup=True,
    start="ANTHROPIC_BASE_URL={url} claude",
    sends_late="Claude Code sends one in each turn",
    advice=((LEFT, "Claude Code", 'eval "$(cacheproxy env claude)" sets it'),),
)
CHECKED = CheckedClient(CLIENT, Checkup(volatile=HEADS))


KNOWN = frozenset({"claude"})
NOW = 1_000.0


def seen(number=1, turn=1, prompt=18_000, reused=0, verdict="ok", **more):
    """One exchange of a conversation of Claude Code, begun at second ``number``."""
    usual = {"client": "claude", "session": "3f9a", "status": 200, "wall": float(number)}
    usual |= {"number": number, "turn": turn, "verdict": verdict}
    usual["usage"] = {"prompt": prompt, "reused": reused}
    (found,) = rows_in([usual | more])
    return found


def recorded(*rows, now=NOW, known=KNOWN):
    """The record of these exchanges."""
    return Record(rows, now, known)


def record(*turns):
    """A conversation of these turns: number of the turn, tokens reused, verdict."""
    return recorded(*(seen(n, *turn[:1], 18_000, *turn[1:]) for n, turn in enumerate(turns)))


def shot(reused):
    return Shot(Usage(prompt=640, reused=reused), 1.0)


def trial(second, without, api=CHAT):
    """A trial of prompts of 640 tokens, by how many were reused of each."""
    return Trial(api, through_proxy=True, first=shot(0), second=shot(second), without=shot(without))


def server_look(kind="llama-server", evaluated=None, slots=()):
    """A look at a server that has evaluated so many tokens, and has these slots."""
    sample = None if evaluated is None else Sample(ServerFigures(evaluated=evaluated))
    tasks = max((slot.task for slot in slots if slot.task is not None), default=None)
    more = {"sample": sample, "slots": tuple(slots), "tasks": tasks}
    return Look(
        "http://localhost:8080", 0.0, 0.0, UpstreamState.UP, server=ServerFacts(kind), **more
    )


SERVER, PROXY = "http://localhost:8080", "http://127.0.0.1:8081"
RUNS = Proxy(PROXY, "0.1.0", SERVER, rules=(RULE,))
HERE = Configured(
    Packages([Package("claude", "cacheproxy-claude-code", "1", client=CLIENT)]), (), (), frozenset()
)


def facts(kind="llama-server", **more):
    """What is known where a proxy runs before such a server, and nothing is wrong."""
    usual = {
        "proxy": RUNS,
        "upstream": SeenUpstream(SERVER, server_look(kind)),
        "found": HERE,
        "profile": Profile(server=ServerFacts(kind), placement=alike(Late.INLINE, "")),
        "checked": (CHECKED,),
    }
    return Examination(**(usual | more))
