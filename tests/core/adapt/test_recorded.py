"""What real agents sent when their conversation was refused, by a real llama.cpp: it goes on.

Recorded with Claude Code 2.1.332, Codex 0.171.0, opencode 1.18.33 and Qwen Code 0.24.4: the tail
of the first request that was refused, its ids, paths and image shortened. Directly, each later
turn was refused as well.
"""

from tests import transcript

URL = "data:image/png;base64,AAAAAA=="
LINE = "[image not shown: image/png, 4 bytes; the model server takes no images]"


WORDS = {"type": "text", "text": LINE}
CHAT_IMAGE = {"type": "image_url", "image_url": {"url": URL}}
SEEN = {"type": "input_image", "image_url": URL, "detail": "high"}
CUT = '{"cmd": "ls -la && echo'
KEPT = '{"INVALID_JSON":"{\\"cmd\\": \\"ls -la && echo"}'
EOF = "failed to parse function arguments: EOF while parsing a string at line 1 column 22"


def test_all_that_is_said():
    transcript.holds("recorded.txt", globals())
