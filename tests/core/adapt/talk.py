"""A client, a model that thinks and a template, as the prompt between them grows."""

from __future__ import annotations

import json
from functools import partial
from typing import NamedTuple

from cacheproxy.core.adapt.thinking import AUTO, KeptThinking, Sources, way_of
from cacheproxy.core.conversation.thoughts import Thought, Thoughts, place_of
from cacheproxy.core.dialects.answer import said_in
from cacheproxy.core.document.edits import encode
from cacheproxy.core.kinds.profile import Memory, MemoryKind, Profile, Thinking
from cacheproxy.core.kinds.profile import ThinkingProfile as Fare
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.fold import RuleReport
from cacheproxy.testing import request
from tests.core.templates import thinking

from .adapted import adapted

WORD = ("preserve_thinking", True)
PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages"}


def profile(way=Thinking.ON_REQUEST, kind=MemoryKind.CHECKPOINTED, word=WORD):
    """A server whose template keeps thinking when asked to by ``word``."""
    fare = Fare(way, word if way is Thinking.ON_REQUEST else None)
    return Profile(thoughts=fare, memory=Memory(kind))


def template(messages, *, empty=False, **kwargs):
    """What the server reads: reasoning of ended turns only where it was asked for."""
    keeps = lambda late, given: late or given.get(WORD[0]) is WORD[1]  # noqa: E731
    return thinking(messages, keeps=keeps, empty=empty, **kwargs)


def answer(text, thought="", calls=()):
    """A chat message as the server gives it."""
    functions = [{"name": name, "arguments": json.dumps(given)} for name, given in calls]
    made = {"role": "assistant", "content": text}
    if thought:
        made["reasoning_content"] = thought
    if functions:
        made["tool_calls"] = [
            {"id": f"c{number}", "type": "function", "function": function}
            for number, function in enumerate(functions)
        ]
    return made


class Kept(NamedTuple):
    """A request with its reasoning kept, what was edited, and where its answer will stand."""

    request: Request
    report: RuleReport | None
    asked: int | None


def keep(asked, way, thoughts, kin=None):
    """Keep the reasoning of a request in this ``way``."""
    one = KeptThinking(AUTO, None, None, None)
    after, need, report = adapted(one, asked, {(): Sources(way, thoughts, kin)})
    return Kept(after, report, None if need is None else need.thought_key)


class Talk:
    """``sends``: whether the client sends reasoning back. ``api``: which one it speaks.

    ``prompts``: the pairs of what the server had read and written, and what it was to read next.
    ``reports``: of each request.
    """

    def __init__(self, *, sends=False, api="chat", setting="yes", empty=False, server=None):
        self.messages = [{"role": "system", "content": "s"}]
        self.thoughts = Thoughts()
        self.prompts: list[tuple[str, str]] = []
        self.reports = []
        self.sent = None
        self.server = server or profile()
        self.more = {}
        self._sends, self._api, self._setting = sends, api, setting
        self._render = partial(template, empty=empty)
        self._was = ""

    def request(self):
        """The next request, as the client makes it."""
        if self._api == "chat":
            return request({"messages": self.messages, **self.more}, PATHS["chat"])
        said = [as_blocks(message) for message in self.messages[1:]]
        return request({"system": "s", "messages": said, **self.more}, PATHS["messages"])

    def step(self, message, said):
        """Have the client send ``message``, and the server answer ``said``."""
        self.messages.append(message)
        asked = self.request()
        way = way_of(self._setting, self.server, asked, self.thoughts)
        kept = keep(asked, way, self.thoughts)
        if way is not None:
            self.thoughts.switch = next(iter(way), None)
        self.sent = kept.request
        self.reports.append(kept.report)
        assert kept.report is None or kept.report.error is None
        prompt = self.rendered(kept.request)
        self.prompts.append((self._was, prompt))
        kwargs = (kept.request.json or {}).get("chat_template_kwargs", {})
        messages = as_chat(kept.request)
        self._was = self._render([*messages, said], **kwargs)
        thought = said.get("reasoning_content")
        if thought and kept.asked is not None and (said["content"] or said.get("tool_calls")):
            place = place_of(kept.asked, said_in([said]))
            name = "reasoning_content" if self._api == "chat" else ""
            self.thoughts.keep(place, Thought(name, encode(thought)))
        self.messages.append(said if self._sends else without(said))

    def rendered(self, made):
        """Return the prompt of a request."""
        return self._render(as_chat(made), **(made.json or {}).get("chat_template_kwargs", {}))

    @property
    def only_grew(self):
        """Whether each prompt began with all that the server had read and written."""
        return all(now.startswith(was) for was, now in self.prompts)


def without(said):
    """An assistant's message as a client keeps it that drops reasoning."""
    return {name: value for name, value in said.items() if name != "reasoning_content"}


def as_blocks(message):
    """A chat message in the Messages API."""
    if message["role"] == "tool":
        block = {"type": "tool_result", "tool_use_id": "c0", "content": message["content"]}
        return {"role": "user", "content": [block]}
    if message["role"] == "user":
        return message
    thought, calls = message.get("reasoning_content"), message.get("tool_calls", ())
    blocks = [{"type": "thinking", "thinking": thought, "signature": ""}] if thought else []
    blocks += [{"type": "text", "text": message["content"]}] if message["content"] else []
    for call in calls:
        given = json.loads(call["function"]["arguments"])
        blocks.append({"type": "tool_use", "name": call["function"]["name"], "input": given})
    return {"role": "assistant", "content": blocks}


def as_chat(made):
    """The messages of a request as the server's template gets them."""
    body = made.json
    if made.path == PATHS["chat"]:
        return body["messages"]
    return [{"role": "system", "content": body["system"]}, *map(_as_chat, body["messages"])]


def _as_chat(message):
    content = message["content"]
    if isinstance(content, str):
        return message
    if content and content[0]["type"] == "tool_result":
        return {"role": "tool", "content": content[0]["content"]}
    text = "".join(block["text"] for block in content if block["type"] == "text")
    thought = "".join(block["thinking"] for block in content if block["type"] == "thinking")
    calls = [(b["name"], b["input"]) for b in content if b["type"] == "tool_use"]
    return answer(text, thought, calls)


def user(text):
    return {"role": "user", "content": text}


def result(text):
    return {"role": "tool", "tool_call_id": "c0", "content": text}


TURNS = (
    (user("one"), answer("", "first", [("look", {"path": "a", "deep": 1.5})])),
    (result("much"), answer("I see.", "second", [("look", {"path": "b"})])),
    (result("more"), answer("Done.", "third")),
    (user("go on"), answer("Done.", "fourth")),
    (user("go on"), answer("Done.", "fifth")),
    (user("go on"), answer("Done.")),
    (user("go on"), answer("Done.", 'six "th"\n')),
    (user("end"), answer("Bye.", "last")),
)


def talk(turns=TURNS, **settings):
    found = Talk(**settings)
    for message, said in turns:
        found.step(message, said)
    return found
