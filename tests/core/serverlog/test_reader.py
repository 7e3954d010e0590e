"""What is read out of llama-server's logs."""

# ruff: noqa: E501 (log lines are as long as they are)

from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from cacheproxy.core.serverlog.reader import LogReader
from tests import transcript


def read(text):
    """All requests of a log, in the order they began, and what it says of the server."""
    reader = LogReader()
    requests = [request for line in text.splitlines() for request in reader.feed(line)]
    requests += reader.close()
    return sorted(requests, key=lambda request: request.line), reader.facts


def turn(task, prompt, reused, slot=0, before=""):
    return f"""\
{before}slot launch_slot_: id  {slot} | task {task} | processing task
slot update_slots: id  {slot} | task {task} | new prompt, n_ctx_slot = 131072, n_keep = 0, task.n_tokens = {prompt}
slot update_slots: id  {slot} | task {task} | n_tokens = {reused}, memory_seq_rm [{reused}, end)
slot print_timing: id  {slot} | task {task} |
prompt eval time =   1000.00 ms / {prompt - reused} tokens (    2.79 ms per token,   358.95 tokens per second)
       eval time =     319.58 ms /    10 tokens (   31.96 ms per token,    31.29 tokens per second)
      total time =   39439.58 ms / 14052 tokens
slot      release: id  {slot} | task {task} | stop processing: n_tokens = {prompt + 9}, truncated = 0
"""


def judged(*turns):
    """The verdict on each of the turns."""
    return [str(request.verdict) for request in read("".join(turns))[0]]


def test_what_is_read_out_of_each_build_s_lines():
    transcript.holds("logs.txt", globals())


LOGS = Path(__file__).with_name("logs.txt").read_text(encoding="utf-8")
_PIECES = st.sampled_from(
    [
        *(piece for line in LOGS.splitlines() for piece in line[4:].split(" | ")),
        "slot   operator(): id  0 | task 3 | ",
        "srv    send_error: task id = 3, error: request (1 tokens) exceeds",
        "model loaded",
        "\n",
        " | ",
    ]
)


@given(st.lists(_PIECES, max_size=40).map("".join))
@example(
    "slot get_availabl: id 0 | selected slot by LCP similarity, sim_best = 0.5, f_keep = 0.6.4"
)
@example(f"slot update_slots: id {'9' * 5000} | task 1 | new prompt, n_prompt_tokens = 5")
def test_it_never_raises_and_its_figures_make_sense(text):
    """Logs are cut, mixed and rotated."""
    for request in read(text)[0]:
        if request.prompt is not None and request.derived:
            assert 0 <= request.reused <= request.prompt
