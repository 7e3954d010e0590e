"""What is read out of llama-server's logs, build by build."""

# ruff: noqa: E501 (log lines are as long as they are)

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cacheproxy.core.conversation.verdict import Judgement
from cacheproxy.core.serverlog.reader import REMEMBERED, LogReader


def read(text):
    """All requests of a log, in the order they began, and what it says of the server."""
    reader = LogReader()
    requests = [request for line in text.splitlines() for request in reader.feed(line)]
    requests += reader.close()
    return sorted(requests, key=lambda request: request.line), reader.facts


def figures(request):
    return request.task, request.slot, request.prompt, request.reused, request.evaluated


JANUARY_2024 = """\
slot 0 is processing [task id: 7]
slot 0 : in cache: 120 tokens | to process: 372 tokens
slot 0 : kv cache rm - [120, end)

print_timings: prompt eval time =     232.47 ms /   372 tokens (    0.47 ms per token,  2116.38 tokens per second)
print_timings:        eval time =     100.00 ms /    12 runs   (    8.33 ms per token,   120.00 tokens per second)
print_timings:       total time =     332.47 ms
"""

SUMMER_2024 = """\
      INFO [   launch_slot_with_task] slot is processing task | tid="0x1e" timestamp=1720645907 id_slot=0 id_task=1
      INFO [            update_slots] kv cache rm [p0, end) | tid="0x1e" timestamp=1720645907 id_slot=0 id_task=1 p0=40
      INFO [                 release] slot released | tid="0x1e" timestamp=1726381666 id_slot=0 id_task=1 n_past=283 truncated=false
      INFO [           print_timings] prompt eval time     =    1048.86 ms /   221 tokens (    4.75 ms per token,   210.70 tokens per second) | tid="0x1e" timestamp=1720645909 id_slot=0 id_task=1 t_prompt_processing=1048.86
      INFO [           print_timings] generation eval time =     828.09 ms /    23 runs   (   36.00 ms per token,    27.77 tokens per second) | tid="0x1e" timestamp=1720645909 id_slot=0 id_task=1 t_token_generation=828.09
      INFO [           print_timings]           total time =    1876.95 ms | tid="0x1e" timestamp=1720645909 id_slot=0 id_task=1
"""

AS_JSON = """\
{"tid":"14964","timestamp":1717067386,"level":"INFO","function":"update_slots","line":2074,"msg":"kv cache rm [p0, end)","id_slot":2,"id_task":19,"p0":969}
{"tid":"14964","timestamp":1717067386,"level":"INFO","function":"print_timings","line":321,"msg":"prompt eval time     =    2684.39 ms /    27 tokens (   99.42 ms per token,    10.06 tokens per second)","id_slot":2,"id_task":19}
{"tid":"14964","timestamp":1717067386,"level":"INFO","function":"update_slots","line":1794,"msg":"slot released","id_slot":2,"id_task":19,"n_ctx":1536,"n_past":323,"n_system_tokens":969,"n_cache_tokens":323,"truncated":false}
"""

SPRING_2025 = """\
Dec 02 12:10:21 kamala llama-server[24689]: slot launch_slot_: id  0 | task 519 | processing task
Dec 02 12:10:21 kamala llama-server[24689]: slot update_slots: id  0 | task 519 | new prompt, n_ctx_slot = 4096, n_keep = 0, n_prompt_tokens = 339
Dec 02 12:10:21 kamala llama-server[24689]: slot update_slots: id  0 | task 519 | kv cache rm [38, end)
Dec 02 12:10:21 kamala llama-server[24689]: slot update_slots: id  0 | task 519 | prompt processing progress, n_past = 339, n_tokens = 301, progress = 1.000000
Dec 02 12:10:29 kamala llama-server[24689]: slot      release: id  0 | task 519 | stop processing: n_past = 380, truncated = 0
Dec 02 12:10:29 kamala llama-server[24689]: slot print_timing: id  0 | task 519 |
Dec 02 12:10:29 kamala llama-server[24689]: [100B blob data]
"""

AUTUMN_2025 = """\
slot get_availabl: id  0 | task -1 | selected slot by LCP similarity, sim_best = 0.151 (> 0.100 thold), f_keep = 0.152
slot launch_slot_: id  0 | task 232 | processing task
slot update_slots: id  0 | task 232 | new prompt, n_ctx_slot = 131072, n_keep = 0, task.n_tokens = 16540
slot update_slots: id  0 | task 232 | n_tokens = 2498, memory_seq_rm [2498, end)
slot update_slots: id  0 | task 232 | prompt processing progress, n_tokens = 10690, batch.n_tokens = 8192, progress = 0.646312
slot update_slots: id  0 | task 232 | n_tokens = 10690, memory_seq_rm [10690, end)
slot update_slots: id  0 | task 232 | prompt done, n_tokens = 16540, batch.n_tokens = 5850
slot print_timing: id  0 | task 232 | \x20
prompt eval time =   39120.00 ms / 14042 tokens (    2.79 ms per token,   358.95 tokens per second)
       eval time =     319.58 ms /    10 tokens (   31.96 ms per token,    31.29 tokens per second)
      total time =   39439.58 ms / 14052 tokens
slot      release: id  0 | task 232 | stop processing: n_tokens = 16549, truncated = 0
srv  log_server_r: done request: POST /v1/messages 127.0.0.1 200
"""

AUTUMN_2026 = """\
0.00.118.600 I slot get_availabl: id  0 | task -1 |  - checking sim = 0.081 (49/608) > 0.100
0.00.118.616 I slot get_availabl: id  1 | task -1 | selected slot by LRU, t_last = 4496672580
0.00.118.700 I slot launch_slot_: id  1 | task 8 | processing task, is_child = 0
0.00.118.721 I slot   operator(): id  1 | task 8 | new prompt, n_ctx_slot = 2048, n_keep = 0, task.n_tokens = 608
0.00.118.734 I slot   operator(): id  1 | task 8 | cached n_tokens = 49, memory_seq_rm [49, end)
0.00.157.254 I slot print_timing: id  1 | task 8 | prompt eval time =      37.34 ms /   559 tokens (    0.07 ms per token, 14970.14 tokens per second)
0.00.157.298 I slot print_timing: id  1 | task 8 |        eval time =       1.18 ms /     4 tokens (    0.39 ms per token,  2540.22 tokens per second)
0.00.157.305 I slot print_timing: id  1 | task 8 |       total time =      38.52 ms /   563 tokens
0.00.157.634 I slot      release: id  1 | task 8 | stop processing: n_tokens = 611, truncated = 0
"""


@pytest.mark.parametrize(
    ("log", "expected", "output", "seconds", "chosen"),
    [
        (JANUARY_2024, (7, 0, 492, 120, 372), 12, 0.23247, (None, None)),
        (SUMMER_2024, (1, 0, 261, 40, 221), 23, 1.04886, (None, None)),
        (AS_JSON, (19, 2, 996, 969, 27), None, 2.68439, (None, None)),
        (SPRING_2025, (519, 0, 339, 38, None), None, None, (None, None)),
        (AUTUMN_2025, (232, 0, 16540, 2498, 14042), 10, 39.12, (0.152, None)),
        (AUTUMN_2026, (8, 1, 608, 49, 559), 4, 0.03734, (None, 49)),
    ],
)
def test_each_build_s_lines(log, expected, output, seconds, chosen):
    """Slot, prompt, reused and evaluated tokens; what the slot held of the prompt."""
    (request,), facts = read(log)
    assert figures(request) == expected
    assert request.output == output
    assert request.seconds == pytest.approx(seconds)
    assert not request.derived
    assert (request.kept, request.shared) == chosen
    assert facts.lines > 0


def test_a_request_is_told_when_it_is_over_not_when_the_next_begins():
    """So that a log can be followed."""
    for log in (AUTUMN_2025, AUTUMN_2026, SUMMER_2024):
        reader = LogReader()
        told = [request for line in log.splitlines() for request in reader.feed(line)]
        assert len(told) == 1
        assert reader.close() == []


def test_at_the_default_verbosity_the_prompt_is_reckoned():
    """The slot ends with the prompt and all but the last token of the answer."""
    lines = [
        line
        for line in AUTUMN_2026.splitlines()
        if not any(word in line for word in ("new prompt", "memory_seq_rm", "checking sim"))
    ]
    (request,), _ = read("\n".join(lines))
    assert figures(request) == (8, 1, 608, 49, 559)
    assert request.derived


def test_a_truncated_answer_is_not_reckoned_with():
    """The slot was shifted then, and its length says nothing."""
    lines = [line for line in AUTUMN_2026.splitlines() if "operator" not in line]
    (request,), _ = read("\n".join(lines).replace("truncated = 0", "truncated = 1"))
    assert request.truncated
    assert (request.prompt, request.reused, request.evaluated) == (None, None, 559)
    assert request.verdict is Judgement.UNKNOWN


def test_colours_and_prefixes_do_not_matter():
    """A container's prefix, a journal's, and terminal colours."""
    coloured = "\n".join(f"llama-1  | \x1b[32m{line}\x1b[0m" for line in AUTUMN_2026.splitlines())
    (request,), _ = read(coloured)
    assert figures(request) == (8, 1, 608, 49, 559)


def test_servers_behind_one_router_are_kept_apart():
    """The same slot and task numbers on two of them are two requests."""
    one = [f"[53409] {line}" for line in AUTUMN_2026.splitlines()]
    other = [f"[42027] {line}" for line in AUTUMN_2026.replace("[49,", "[600,").splitlines()]
    mixed = [line for pair in zip(one, other, strict=True) for line in pair]
    requests, _ = read("\n".join(mixed))
    assert sorted(request.reused for request in requests) == [49, 600]


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


KEPT_ALL = (
    "slot get_availabl: id  0 | task -1 | selected slot by LCP similarity, "
    "sim_best = 0.188 (> 0.100 thold), f_keep = 1.000\n"
)


@pytest.mark.parametrize(
    ("turns", "verdicts"),
    [
        # each turn keeps the one before
        ([turn(1, 18_000, 0), turn(2, 18_211, 18_000), turn(3, 24_000, 18_220)], "cold ok ok"),
        # only the head is the same, as with a volatile header
        ([turn(1, 18_000, 0), turn(2, 18_211, 33), turn(3, 18_904, 2_498)], "cold BREAK BREAK"),
        # a prompt that no slot is like goes to another slot each time
        ([turn(n, 18_000 + 200 * n, 0, slot=3 - n) for n in range(3)], "cold BREAK BREAK"),
        # a conversation much longer than all before it, and a short one
        ([turn(1, 400, 0), turn(2, 18_000, 33)], "cold cold"),
        ([turn(1, 230, 0), turn(2, 220, 30)], "cold cold"),
        # a probe before it makes no turn of a first request
        ([turn(1, 31, 0), turn(2, 18_000, 30)], "cold cold"),
        # a log that begins in the middle
        ([turn(88, 18_000, 17_500)], "ok"),
        # all that the slot held was kept: another conversation's length does not count then
        (
            [turn(1, 3_000, 0), turn(2, 15_000, 0, 1), turn(3, 16_000, 3_009, before=KEPT_ALL)],
            "cold cold ok",
        ),
    ],
)
def test_a_request_is_judged_by_the_lengths_before_it(turns, verdicts):
    requests, _ = read("".join(turns))
    assert [str(request.verdict) for request in requests] == verdicts.split()


def test_a_model_that_cannot_go_back():
    """The server says so itself."""
    forced = "slot update_slots: id  0 | task 2 | forcing full prompt re-processing due to "
    whole = turn(1, 9_000, 0) + turn(2, 9_100, 0).replace(
        "slot update_slots: id  0 | task 2 | n_tokens",
        forced + "lack\nslot update_slots: id  0 | task 2 | n_tokens",
    )
    requests, _ = read(whole)
    assert requests[1].recomputed
    assert requests[1].verdict is Judgement.BREAK
    assert requests[1].reason == "computed all anew: memory"


def test_a_server_started_anew_has_nothing_to_reuse():
    """What was before its start does not count, and its task numbers begin again."""
    started = "srv  llama_server: model loaded\n"
    requests, _ = read(turn(0, 9_000, 0) + started + turn(0, 9_100, 0))
    assert [str(request.verdict) for request in requests] == ["cold", "cold"]


def test_only_the_last_prompts_are_what_a_turn_may_extend():
    """What is further back is hardly held any more."""
    first, last = turn(0, 9_000, 0), turn(99, 9_100, 0)
    between = [turn(1 + number, 300, 0) for number in range(REMEMBERED)]
    for some, verdict in ((between, "cold"), (between[1:], "BREAK")):
        requests, _ = read("".join((first, *some, last)))
        assert str(requests[-1].verdict) == verdict


def test_a_prompt_longer_than_the_context():
    """Refused, with the server's own words; nothing of it is held."""
    (request, after), _ = read(
        """\
0.00.181.091 I slot launch_slot_: id  0 | task 18 | processing task, is_child = 0
0.00.181.100 I slot   operator(): id  0 | task 18 | new prompt, n_ctx_slot = 2048, n_keep = 0, task.n_tokens = 10019
0.00.181.104 E srv    send_error: task id = 18, error: request (10019 tokens) exceeds the available context size (2048 tokens), try increasing it
0.00.181.107 I slot      release: id  0 | task 18 | stop processing: n_tokens = 608, truncated = 0
"""
        + turn(19, 10_100, 0)
    )
    assert (
        request.error == "request (10019 tokens) exceeds the available context size (2048 tokens)"
    )
    assert (request.verdict, after.verdict) == (Judgement.UNKNOWN, Judgement.COLD)


def test_the_prompt_cache_in_ram():
    """Its state, and what it dropped; that it is on is not believed."""
    _, facts = read(
        "srv    load_model: prompt cache is enabled, size limit: 8192 MiB\n"
        "srv          load:  - found better prompt with f_keep = 0.308, sim = 0.298\n"
        "srv        update:  - cache state: 27 prompts, 7377.676 MiB (limits: 8192.000 MiB, 65536 tokens, 1 est)\n"
        "srv        update:  - cache size limit reached, removing oldest entry (size = 3418.112 MiB)\n"
        + turn(5, 9_000, 8_000)
        + turn(6, 9_000, 8_990)
    )
    assert (facts.ram_prompts, facts.ram_mib, facts.ram_limit_mib) == (27, 7377.676, 8192.0)
    assert (facts.evicted, facts.ram_off) == (1, False)
    _, facts = read("srv load_model: prompt cache is disabled - use `--cache-ram N` to enable it")
    assert facts.ram_off


@pytest.mark.parametrize(
    "log",
    ["", "hello", "GET /v1/models 200", '127.0.0.1 - - "GET / HTTP/1.1" 200', "\0\xff" * 9000],
)
def test_another_program_s_log(log):
    """Nothing in it is ours."""
    requests, facts = read(log)
    assert requests == []
    assert facts.lines == 0


_PIECES = st.sampled_from(
    [
        *(piece for line in AUTUMN_2025.splitlines() for piece in line.split(" | ")),
        *SUMMER_2024.split(" "),
        *JANUARY_2024.splitlines(),
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
