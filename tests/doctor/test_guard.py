"""What slots cost, and what a test prompt would push out: by figures, and with the real server."""

import json
import re

import pytest
from cacheproxy_demo.embedded import LlamaServer

from cacheproxy.child.process import ChildProxy
from cacheproxy.config import Config
from cacheproxy.core.kinds.status import Slot
from cacheproxy.doctor.examine import Inputs, examine
from cacheproxy.doctor.guard import at_stake, prompts_stay
from cacheproxy.doctor.record import NO_RECORD
from cacheproxy.doctor.report import Working, conclude
from cacheproxy.http_client import Site
from tests import transcript
from tests.doctor import builders
from tests.doctor.builders import recorded

NEW = Slot(0, 65_536, 0, busy=False)


def used(number, task, held, *, busy=False):
    return Slot(number, 65_536, held, busy, task)


def held_by(number, session, turn, prompt, reused, **more):
    return builders.seen(number, turn, prompt, reused, session=session, seconds=0.5, **more)


MAIN = held_by(1, "a", 1, 11_000, 0), held_by(3, "a", 2, 11_200, 11_000)
TITLE = held_by(2, "a", 1, 500, 7, side=True)


def test_what_is_at_stake_and_what_is_kept():
    known = {"at_stake": at_stake, "prompts_stay": prompts_stay, "recorded": recorded}
    transcript.holds("guard.txt", globals() | known | {"NO_RECORD": NO_RECORD})


ONE, FOUR = {"n_parallel": 1}, {"n_parallel": 4, "kv_unified": True}
CACHE, NO_CACHE = {"cache_ram_mib": 8192}, {"cache_ram_mib": 0}
AGENT = {"User-Agent": "opencode/1.18", "X-Session-Id": "3f9a"}


class Talk:
    """A conversation of about 2,500 tokens."""

    def __init__(self, url):
        self.site = Site(url, AGENT)
        self.messages = [{"role": "user", "content": "The garden is long and narrow. " * 350}]

    def turn(self):
        """Send the next turn; return the tokens evaluated and the length of the prompt."""
        request = {"model": "random", "max_tokens": 1, "messages": self.messages}
        answer = self.site.post("/v1/chat/completions", json.dumps(request).encode(), 60)
        usage = answer.json()["usage"]
        reused = usage["prompt_tokens_details"]["cached_tokens"]
        self.messages += [
            {"role": "assistant", "content": "It is grey."},
            {"role": "user", "content": "And the river?"},
        ]
        return usage["prompt_tokens"] - reused, usage["prompt_tokens"]

    def title(self):
        request = {"messages": [{"role": "user", "content": "stone river table " * 120}]}
        request |= {"model": "random", "max_tokens": 1}
        site = Site(self.site.url, {"User-Agent": "opencode/1.18", "X-Session-Id": "title"})
        assert site.post("/v1/chat/completions", json.dumps(request).encode(), 60).status == 200


@pytest.fixture
def around(model, tmp_path):
    """Let doctor come between two turns; return its report, and what the second turn cost."""

    def around(settings, *, title=False, **more):
        with (
            LlamaServer(model, **({"n_ctx": 16_384} | settings)) as server,
            ChildProxy(server.url) as proxy,
        ):
            talk = Talk(proxy.url)
            for number in range(2):
                talk.turn()
                if title and not number:
                    talk.title()
            inputs = Inputs(Config(), proxy.url, None, {}, tmp_path, **more)
            known, found = examine(inputs, lambda _: None)
            return known, found, *talk.turn()

    return around


@pytest.mark.llama
@pytest.mark.parametrize(
    ("settings", "title", "answer", "sends", "costs"),
    [
        (ONE | NO_CACHE, False, "no", False, False),
        (ONE | NO_CACHE, False, "yes", True, True),
        (ONE | CACHE, True, "", True, False),
        (FOUR | NO_CACHE, True, "no", None, False),
        (FOUR | NO_CACHE, False, "--send", True, True),
        (FOUR | CACHE, True, "", True, False),
    ],
)
def test_the_conversation_outlives_doctor(  # noqa: PLR0917 (a table)
    around, settings, title, answer, sends, costs
):
    """Unless it is told to send; where a title between two turns shows the RAM cache it just does.

    Told no, it says which option sends, and answers by the agent's own turns; told yes it finds
    that its own first prompt does not come back, nor does the conversation.
    """
    asked = []

    def ask(question):
        asked.append(question)
        return answer == "yes"

    send = True if answer == "--send" else None
    known, findings, evaluated, prompt = around(settings, title=title, ask=ask, send=send)
    assert len(asked) == (answer in ("no", "yes"))
    for question in asked:
        assert re.search(
            r"600 tokens; the (only slot holds|4 slots hold up to) a conversation of 2,\d{3} ",
            question,
        )
    assert sends is None or len(known.trials) == 2 * sends  # None: as long as slots are free
    assert prompt > 2000
    assert (evaluated > prompt - 100) if costs else (evaluated < 100)
    texts = {one.name: f"{one.text} {one.fix}" for one in findings}
    if sends is False:
        assert texts["reuse"].startswith("test prompts were not sent: the ")
    assert sends or conclude(known, findings).answer is Working.YES
    if answer == "yes":
        assert texts["cache-ram"].endswith("start llama-server with --cache-ram 8192")
