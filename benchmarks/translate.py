"""What translation costs: CPU of one request's body, of one whole answer, of one streamed event.

    python benchmarks/translate.py [--rounds 300]

Bodies: the largest recorded request of each dialect, and one of about 130 KB made of it by
repeating its messages. Streams: 2,000 chunks of text, and of a tool call, fed one by one. Printed:
medians in microseconds of CPU time of this process. The bar: 1,000 µs for 130 KB, 20 µs an event.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cacheproxy.core.prompt.request import Request
from cacheproxy.testing import find_captures, load_capture
from cacheproxy.translate.chat import ChatToMessages
from cacheproxy.translate.common.translation import Translation
from cacheproxy.translate.messages import MessagesToChat

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


def message_event(kind: str, **more: object) -> bytes:
    value = json.dumps({"type": kind, **more}).encode()
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), value)


def message_streams() -> dict[str, list[bytes]]:
    usage = {"input_tokens": 9, "output_tokens": 9}
    start = message_event("message_start", message={"id": "msg_1", "model": "m", "usage": usage})
    end = [
        message_event("content_block_stop", index=0),
        message_event("message_delta", delta={"stop_reason": "end_turn"}, usage=usage),
        message_event("message_stop"),
    ]

    def of(block: dict[str, object], deltas: Iterator[dict[str, object]]) -> list[bytes]:
        begin = message_event("content_block_start", index=0, content_block=block)
        parts = [message_event("content_block_delta", index=0, delta=delta) for delta in deltas]
        return [start, begin, *parts, *end]

    numbers = range(EVENTS)
    return {
        "text": of(
            {"type": "text", "text": ""},
            ({"type": "text_delta", "text": f" word{n}"} for n in numbers),
        ),
        "a call": of(
            {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}},
            ({"type": "input_json_delta", "partial_json": f'"{n}", '} for n in numbers),
        ),
    }


@dataclass(frozen=True)
class Direction:
    """One direction: ``path`` ends the paths of its requests, ``answer`` is of about 4 KB."""

    name: str
    path: str
    make: Callable[[], Translation]
    answer: bytes
    streams: dict[str, list[bytes]]


DIRECTIONS = [
    Direction(
        "Messages client, chat server",
        "/messages",
        MessagesToChat,
        json.dumps(
            {
                "id": "chatcmpl-1",
                "choices": [{"message": {"content": "word " * 800}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 9, "completion_tokens": 9},
            }
        ).encode(),
        chat_streams(),
    ),
    Direction(
        "Chat client, Messages server",
        "/chat/completions",
        lambda: ChatToMessages(created=0),
        json.dumps(
            {
                "id": "msg_1",
                "content": [{"type": "text", "text": "word " * 800}],
                "stop_reason": "end_turn",
                "usage": {"input_tokens": 9, "output_tokens": 9},
            }
        ).encode(),
        message_streams(),
    ),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=300)
    options = parser.parse_args()
    recorded = [one for file in find_captures("*.jsonl", __file__) for one in load_capture(file)]
    for direction in DIRECTIONS:
        print(direction.name)
        for name, run, each in measured(direction, recorded):
            print(f"  {name:42} {median(run, options.rounds) / each:9.1f} µs")


def measured(direction: Direction, recorded: list[Request]) -> Iterator[tuple[str, Run, int]]:
    """Yield (what, a run of it, by how many to divide its time)."""
    asked = [one for one in recorded if one.path.endswith(direction.path) and one.json]
    if asked:
        largest = max(asked, key=lambda one: len(one.body))
        for one in (largest, grown(largest)):
            name = f"request, {len(one.body) / 1000:.0f} KB"
            yield name, (lambda one=one: direction.make().request(one)), 1
    translation = direction.make()
    name = f"answer, {len(direction.answer) / 1000:.0f} KB"
    yield name, lambda: translation.answer(200, direction.answer), 1
    for name, events in direction.streams.items():
        yield f"event of {name}", (lambda events=events: stream(translation, events)), len(events)


def grown(request: Request) -> Request:
    """``request`` with its messages repeated until it has about SIZE bytes."""
    body = dict(request.json or {})
    messages = body["messages"]
    while len(json.dumps(body)) < SIZE:
        body["messages"] = body["messages"] + messages
    return request.with_text(json.dumps(body, ensure_ascii=False, separators=(",", ":")))


def stream(translation: Translation, events: list[bytes]) -> None:
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
