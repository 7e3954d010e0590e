"""The reader of upstream responses: cut anywhere, the same head, body, end and error."""

import atheris

with atheris.instrument_imports(include=["cacheproxy.core.http1"]):
    from cacheproxy.core.http1 import response_reader as http1

from fuzz.starting import start
from tests.core.http1.test_response_reader import BAD, GOOD

LONGEST = http1.LONGEST_HEAD


def read(pieces: list[bytes], method: bytes) -> tuple[object, bytes, bool, str | None]:
    """Return head, body, done and error."""
    reader = http1.ResponseReader(method)
    body, error = b"", None
    try:
        for piece in pieces:
            body += reader.feed(piece)
        reader.close()
    except http1.ResponseError as refused:
        error = str(refused)
    head = reader.head and (reader.head.status, reader.head.reason, reader.head.headers)
    return head, body, reader.done, error


def one(data: bytes) -> None:
    """The first byte says where to cut, how long a head may be, and the method."""
    at, data = data[0] if data else 0, data[1:]
    http1.LONGEST_HEAD = 60 if at % 2 and b"chunked" not in data.lower() else LONGEST
    method = b"HEAD" if at % 16 == 3 else b"POST"
    head, body, done, error = read([data], method)
    for pieces in ([data], [data[:at], data[at:]], [data[i : i + 1] for i in range(len(data))]):
        cut_head, cut_body, cut_done, cut_error = read(pieces, method)
        assert (cut_head, cut_done, cut_error) == (head, done, error)
        assert cut_body == body or (error is not None and cut_body.startswith(body))


if __name__ == "__main__":
    answers = [answer for answer, _ in GOOD.values()] + list(BAD.values())
    start(one, [cut + answer for answer in answers for cut in (b"\x14", b"\x17")])
