"""Lines of a capture: an exchange or CapturedError; what was read is written, and read again."""

import json

import atheris

with atheris.instrument_imports(include=["cacheproxy.record", "cacheproxy.core.privacy"]):
    from cacheproxy.record import jsonl

from fuzz.starting import start
from fuzz.values import value_of

KEYS = [*jsonl._Line.__struct_fields__, "any"]
TEXTS = ["", "/v1/messages?key=sk-ant-1", "gzip", "e30=", "complete", "break", "messages_changed"]
NAMES = ["rule", "paths", "error", "prompt", "reused", "judgement", "reason", "tokens", "Cookie"]
HEADERS = [["Authorization", "Bearer a"]]


def one(raw: bytes) -> None:
    """Raise whatever is raised but CapturedError. Half of the lines are no more than bytes."""
    data = atheris.FuzzedDataProvider(raw)
    line = raw[1:]
    if data.ConsumeBool():
        fields = {"method": "POST", "path": "/", "body": data.ConsumeUnicode(8)}
        for _ in range(data.ConsumeIntInRange(0, 5)):
            made_up = value_of(data, TEXTS, NAMES)
            odd = data.PickValueInList([made_up, made_up, HEADERS, 1e400])
            fields[data.PickValueInList(KEYS)] = odd
        line = json.dumps(fields).encode()
    try:
        captured = jsonl.from_line(line)
    except jsonl.CapturedError as refused:
        if "\n" in str(refused):
            raise
        return
    written = jsonl.to_line(captured)
    assert written.index(b"\n") == len(written) - 1
    assert repr(jsonl.from_line(written)) == repr(captured)


if __name__ == "__main__":
    start(one)
