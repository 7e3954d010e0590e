"""Each family's model loads in the real server, answers, and is the same each time."""

import pytest
from cacheproxy_demo.client import DemoClient
from cacheproxy_demo.embedded import LlamaServer

from tests import needs

from .families import FAMILIES, write_family

WORDS = " ".join(f"word{number} of a long text" for number in range(500))


def ask(server, *texts):
    roles = ("user", "assistant")
    messages = [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]
    body = {"model": "m", "max_tokens": 4, "temperature": 0, "messages": messages}
    return DemoClient(server.url).post("/v1/chat/completions", body).usage


@pytest.mark.parametrize("name", FAMILIES)
def test_the_same_arguments_give_the_same_bytes(name, tmp_path):
    one, two = (write_family(tmp_path / f"{n}.gguf", name).read_bytes() for n in range(2))
    assert one == two


@pytest.mark.llama
@pytest.mark.parametrize("name", FAMILIES)
def test_it_answers_reuses_what_is_appended_and_cannot_go_back_to_any_token(name, tmp_path):
    """The full-attention model would reuse all up to the change."""
    needs.llama()
    model = write_family(tmp_path / "m.gguf", name, text=WORDS)
    with LlamaServer(model) as server:
        first = ask(server, WORDS)
        assert first.output > 0
        appended = ask(server, WORDS, "one word", "of a long text")
        assert appended.reused >= first.prompt - 8
        middle = len(WORDS) // 2
        changed = WORDS[:middle] + " changed " + WORDS[middle:]
        edited = ask(server, changed, "one word", "of a long text")
        assert edited.reused < first.prompt * 0.4
        assert "context checkpoint" in server.log()
