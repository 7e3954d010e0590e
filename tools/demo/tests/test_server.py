"""The real server: it answers, says what it reused, and leaves with its parent."""

import json
import subprocess
import sys

import pytest
from cacheproxy_demo.embedded import EmbeddedUnavailable, LlamaServer, StartFailedError, write_model
from cacheproxy_demo.embedded.model import default_template

from cacheproxy.http_client import Site
from tests import needs
from tests.proxy.harness import eventually, running, runs

pytestmark = [pytest.mark.llama, pytest.mark.slow]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    needs.llama()
    return write_model(tmp_path_factory.mktemp("model") / "tiny.gguf")


@pytest.fixture(scope="module")
def server(model):
    with LlamaServer(model, n_ctx=4096) as server:
        yield server


def post(server, path, **body):
    answer = Site(server.url).post(path, json.dumps(body).encode())
    assert answer.status == 200, answer.said()
    return answer.json()


def chat(server, *messages, **more):
    return post(server, "/v1/chat/completions", messages=messages, max_tokens=8, **more)


def prompt(server, *messages, **more):
    return post(server, "/apply-template", messages=messages, **more)["prompt"]


def say(role, content, **more):
    return {"role": role, "content": content, **more}


def test_a_prompt_of_known_words_has_about_a_token_a_word(server):
    tokens = post(server, "/tokenize", content=" of or in is to for and the not if")["tokens"]
    assert len(tokens) == 10


def test_the_system_text_comes_before_the_tools(server):
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    text = prompt(server, say("system", "Be brief."), say("user", "Go."), tools=[tool])
    assert text.startswith("<|im_start|>system\nBe brief.\n\n# Tools")
    assert '"name": "look"' in text
    assert text.endswith("<|im_start|>user\nGo.<|im_end|>\n<|im_start|>assistant\n")
    blocks = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert "<|im_start|>user\na\nb<|im_end|>" in prompt(server, say("user", blocks))


def test_its_template_can_take_move_or_refuse_late_system_messages(server, model):
    late = (say("system", "Be brief."), say("user", "Go."), say("system", "Now."))
    assert prompt(server, *late).endswith(
        "Go.<|im_end|>\n<|im_start|>system\nNow.<|im_end|>\n<|im_start|>assistant\n"
    )
    with LlamaServer(model, n_ctx=512, chat_template=default_template("hoisted")) as hoisting:
        assert prompt(hoisting, *late).startswith("<|im_start|>system\nBe brief.\nNow.<|im_end|>\n")
    template = default_template("refused")
    with LlamaServer(model, n_ctx=512, chat_template=template) as strict:
        asked = json.dumps({"messages": late}).encode()
        answer = Site(strict.url).post("/apply-template", asked)
    assert answer.status == 400
    assert b"System message must be at the beginning" in answer.body


def test_calls_and_results_are_rendered_and_the_next_turn_extends_the_prompt(server):
    arguments = json.dumps({"path": "x"})
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": arguments}}
    history = [say("user", "Go."), say("assistant", "", tool_calls=[call])]
    results = [say("tool", "left", tool_call_id="1"), say("tool", "right", tool_call_id="1")]
    text = prompt(server, *history, *results)
    assert '<tool_call>\n{"name": "look", "arguments": {"path": "x"}}\n</tool_call>' in text
    assert text.count("<|im_start|>user") == 2
    assert "left\n</tool_response>\n<tool_response>\nright" in text
    longer = prompt(server, *history, *results, say("assistant", "ok"), say("user", "more"))
    assert longer.startswith(text)


def test_close_ends_the_child_in_peace_and_keeps_the_log(model):
    server = LlamaServer(model, n_ctx=512, model_alias=["named"], cpuparams__n_threads=1)
    assert chat(server, say("user", "Go."))["model"] == "named"
    assert server.close() == 0
    assert server.close() == 0
    assert "listening" in server.log()


def test_it_dies_with_its_parent(model):
    program = (
        "import sys, time; from pathlib import Path;"
        "from cacheproxy_demo.embedded import LlamaServer;"
        "server = LlamaServer(Path(sys.argv[1]), n_ctx=512);"
        "print(server.pid, flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", program, model]
    with running(command, stdout=subprocess.PIPE) as parent:  # it ends with SIGKILL
        child = int(parent.stdout.readline())
    eventually(lambda: not runs(child))


def test_a_start_that_fails_is_an_error_with_the_end_of_the_log(model, tmp_path):
    with pytest.raises(StartFailedError, match="nonsense"):
        LlamaServer(model, nonsense=1)
    with pytest.raises(StartFailedError, match="did not start"):
        LlamaServer(tmp_path / "none.gguf")


@pytest.mark.parametrize(
    ("source", "advice"),
    [
        ("raise ModuleNotFoundError(name='xllamacpp')", "pip install xllamacpp"),
        ("raise ImportError('libgomp.so.1: cannot open')", "apt install libgomp1"),
        ("raise ImportError('GLIBC_2.38\\nnot found')", "GLIBC_2.38 not found"),
    ],
)
def test_a_missing_library_is_one_line_that_says_what_to_install(
    source, advice, tmp_path, monkeypatch
):
    (tmp_path / "xllamacpp.py").write_text(source)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(EmbeddedUnavailable, match=advice) as caught:
        LlamaServer(tmp_path / "any.gguf")
    assert "\n" not in str(caught.value)
