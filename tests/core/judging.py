"""Turns to be judged: prompts, what was counted of them, and changes in them."""

from msgspec import structs

from cacheproxy.core.conversation.divergence import parting
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import Break, TokenCount
from cacheproxy.core.judge.evidence import Before, Evidence
from cacheproxy.core.judge.judge import judge
from cacheproxy.core.prompt.prompt import prompt_of
from tests.core.diagnose.test_volatile import set_system

from .planting import chat, numbered, plant, request


def prompts(bodies):
    return [prompt_of(request(body)) for body in bodies]


FIRST, SECOND = prompts(chat(2))
TOKENS = 1000
GROWN = 1100


def before(prompt=FIRST, unedited=None, tokens=TOKENS, **other):
    return Before(prompt, unedited or prompt, tokens, **other)


def verdict(reused, *, sent=SECOND, unedited=None, known=None, prompt=GROWN, seconds=None, **other):
    usage = Usage(prompt, reused, 10, seconds)
    return judged(known or before(), sent, usage, unedited=unedited, **other)


def judged(known, sent, usage, *, unedited=None, **other):
    """The verdict on a turn."""
    return judge(Evidence(known, sent, unedited or sent, usage, **other))


def shared(one, two):
    """What a server would reuse."""
    return round(parting(one, two).shared * GROWN / two.chars)


def changed(change):
    return prompts(plant(chat(2), change))


def with_nonce(body, turn):
    set_system(body, lambda text: f"id: {numbered('nonce', turn)}\n{text}")


def with_tool(body, turn):
    body["tools"][0].update(n=turn)


def with_history(body, turn):
    kept = " ".join(map(str, range(1000, 1160)))
    body["messages"][1].update(content=f"turn {turn}: {kept}")


def with_last(body, turn):
    """Changed behind two thirds of the prompt."""
    body["messages"][-1].update(content=f"{turn}" * 800)


def summarised():
    """The prompts of a conversation's turn, and of the one after its compaction."""
    *_, one = chat(5)
    two = {**one, "messages": [one["messages"][0], {"role": "user", "content": "In short."}]}
    return prompts([one, two])


def _counted(count):
    return f"{'~' * (count.source == 'estimated')}{count.tokens}"


def _member(name, value):
    if isinstance(value, TokenCount):
        value = _counted(value)
    elif isinstance(value, Break):
        at = f"{value.path}:{value.byte} {_counted(value.position)} {value.kind}"
        value = f"{at} {value.was[:20]!r} {value.now[:20]!r}"
    elif isinstance(value, tuple):
        value = "; ".join(value)
    elif isinstance(value, float):
        value = f"{value:.2f}"
    return str(value) if name == "judgement" else f"{name} {value}"


def spelled(verdict):
    """All that a verdict says, in a line; tokens with ~ are estimated."""
    fields = structs.asdict(verdict).items()
    return ", ".join(_member(name, value) for name, value in fields if value not in (None, ()))
