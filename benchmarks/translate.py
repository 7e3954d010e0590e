"""What translation costs: CPU of one request's body, of one whole answer, of one streamed event.

    python benchmarks/translate.py [--rounds 300]

Bodies: the largest recorded Messages request, and one of about 130 KB made of it by
repeating its messages. Streams: 2,000 chunks of text, and of a tool call, fed one by one. Printed:
medians in microseconds of CPU time of this process. The bar: 1,000 µs for 130 KB, 20 µs an event.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial

from cacheproxy.core.prompt.request import Request
from cacheproxy.testing import find_captures, load_capture
from cacheproxy.translate.translation import MessagesToChat

SIZE = 130_000
EVENTS = 2_000
Run = Callable[[], object]


def chat_event(delta: dict[str, object], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    value = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return b"data: %s\n\n" % json.dumps(value | {"choices": [choice]}).encode()


def chat_call(arguments: str, **more: object) -> dict[str, object]:
    function = {"name": "look", "arguments": arguments} if more else {"arguments": arguments}
    return {"tool_calls": [{"index": 0, "function": function, **more}]}


def chat_streams() -> dict[str, list[bytes]]:
    text = [chat_event({"content": f" word{n}"}) for n in range(EVENTS)]
    call = [chat_event(chat_call(f'"{n}", ')) for n in range(EVENTS)]
    first = chat_event(chat_call('{"a": [', id="call_1"))
    return {
        "text": [*text, chat_event({}, "stop")],
        "a call": [first, *call, chat_event(chat_call("1]}")), chat_event({}, "tool_calls")],
    }


PATH = "/messages"
HELLO = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}
ANSWER = json.dumps(
    {
        "id": "chatcmpl-1",
        "choices": [{"message": {"content": "word " * 800}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 9},
    }
).encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=300)
    options = parser.parse_args()
    recorded = [one for file in find_captures("*.jsonl", __file__) for one in load_capture(file)]
    for name, run, each in measured(recorded):
        print(f"{name:42} {median(run, options.rounds) / each:9.1f} µs")


def measured(recorded: list[Request]) -> Iterator[tuple[str, Run, int]]:
    """Yield (what, a run of it, by how many to divide its time)."""
    asked = [one for one in recorded if one.path.endswith(PATH) and one.json]
    if asked:
        largest = max(asked, key=lambda one: len(one.body))
        for one in (largest, grown(largest)):
            yield f"request, {len(one.body) / 1000:.0f} KB", partial(MessagesToChat, one), 1
    translation = MessagesToChat(Request("POST", f"/v1{PATH}", (), json.dumps(HELLO).encode()))
    yield f"answer, {len(ANSWER) / 1000:.0f} KB", partial(translation.answer, 200, ANSWER), 1
    for name, events in chat_streams().items():
        yield f"event of {name}", partial(stream, translation, events), len(events)


def grown(request: Request) -> Request:
    """``request`` with its messages repeated until it has about SIZE bytes."""
    body = dict(request.json or {})
    messages = body["messages"]
    while len(json.dumps(body)) < SIZE:
        body["messages"] = body["messages"] + messages
    return request.with_text(json.dumps(body, ensure_ascii=False, separators=(",", ":")))


def stream(translation: MessagesToChat, events: list[bytes]) -> None:
    transform = translation.stream()
    for event in events:
        transform.feed(event)
    transform.close()


def median(run: Run, rounds: int) -> float:
    """Microseconds of CPU, the median of ``rounds`` or of two seconds' worth."""
    times = []
    until = time.monotonic() + 2
    while len(times) < 5 or (len(times) < rounds and time.monotonic() < until):
        begun = time.process_time_ns()
        run()
        times.append((time.process_time_ns() - begun) / 1000)
    return statistics.median(times)


if __name__ == "__main__":
    main()
