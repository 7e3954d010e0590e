"""Pages of /metrics as the servers write them, and as they should not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.servers.metrics_page import sample_of
from cacheproxy.core.servers.status import CacheConfig, Sample, ServerFigures

LLAMA = """\
# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed, excluding cached tokens
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total 385
# TYPE llamacpp:prompt_tokens_cached_total counter
llamacpp:prompt_tokens_cached_total 1535
# TYPE llamacpp:prompt_seconds_total counter
llamacpp:prompt_seconds_total 0.041005
# TYPE llamacpp:tokens_predicted_total counter
llamacpp:tokens_predicted_total 33
# TYPE llamacpp:tokens_predicted_seconds_total counter
llamacpp:tokens_predicted_seconds_total 0.009887
# TYPE llamacpp:n_tokens_max counter
llamacpp:n_tokens_max 327
# TYPE llamacpp:prompt_tokens_seconds gauge
llamacpp:prompt_tokens_seconds 9389.1
# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing 1
# TYPE llamacpp:requests_deferred gauge
llamacpp:requests_deferred 2
"""

VLLM = """\
process_start_time_seconds 1.76368122145e+09
vllm:num_requests_running{engine="0",model_name="org/model"} 2.0
vllm:num_requests_running{engine="1",model_name="org/model"} 1.0
vllm:num_requests_waiting{engine="0",model_name="org/model"} 0.0
vllm:kv_cache_usage_perc{engine="0",model_name="org/model"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="org/model"} 0.5
vllm:prefix_cache_queries_total{engine="0",model_name="org/model"} 1200.0
vllm:prefix_cache_hits_total{engine="0",model_name="org/model"} 800.0
vllm:prompt_tokens_total{engine="0",model_name="org/model"} 1000.0
vllm:prompt_tokens_total{engine="1",model_name="org/model"} 200.0
vllm:prompt_tokens_created{engine="0",model_name="org/model"} 1.7636812e+09
vllm:generation_tokens_total{engine="0",model_name="org/model"} 55.0
vllm:request_success_total{engine="0",finished_reason="stop",model_name="org/model"} 4.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="org/model"} 1.0
vllm:request_prefill_time_seconds_bucket{engine="0",le="0.3",model_name="org/model"} 5.0
vllm:request_prefill_time_seconds_count{engine="0",model_name="org/model"} 5.0
vllm:request_prefill_time_seconds_sum{engine="0",model_name="org/model"} 1.5
"""

SGLANG = """\
sglang:prompt_tokens_total{model_name="org/model"} 8.0e+03
sglang:generation_tokens_total{model_name="org/model"} 700.0
sglang:num_requests_total{model_name="org/model"} 12.0
sglang:token_usage{model_name="org/model"} 0.28
sglang:num_running_reqs{model_name="org/model"} 3.0
sglang:num_queue_reqs{model_name="org/model"} 1.0
"""


def of_sglang(source, count):
    return f'sglang:cached_tokens_total{{cache_source="{source}",model_name="org/model"}} {count}\n'


LLAMAS = Sample(
    ServerFigures(evaluated=385, reused=1535, generated=33, prefill=0.041005, generation=0.009887),
    running=1,
    waiting=2,
)
VLLMS = Sample(
    ServerFigures(prompt=1200, reused=800, generated=55, prefill=1.5, requests=5),
    model="org/model",
    start="1763681221.45",
    running=3,
    waiting=0,
    kv=0.5,
)
SGLANGS = Sample(
    ServerFigures(prompt=8000, reused=0, generated=700, requests=12),
    model="org/model",
    running=3,
    waiting=1,
    kv=0.28,
)


@pytest.mark.parametrize(
    ("page", "sample"),
    [
        (LLAMA, LLAMAS),  # its prompt tokens are those evaluated, cached ones stand beside them
        (VLLM, VLLMS),  # engines are added up, the fullest cache counts
        (  # cached tokens are said better than by hits
            f'{VLLM}vllm:prompt_tokens_cached_total{{model_name="org/model"}} 790\n',
            replace(VLLMS, figures=VLLMS.figures._replace(reused=790)),
        ),
        (SGLANG, SGLANGS),  # before its first hit: that is zero, not unknown
        (
            SGLANG + of_sglang("device", 300) + of_sglang("host", 21),
            replace(SGLANGS, figures=SGLANGS.figures._replace(reused=321)),
        ),
        (  # a name as the text format escapes it
            SGLANG.replace("org/model", r"C:\\m\"x"),
            replace(SGLANGS, model='C:\\m"x'),
        ),
        (  # several models are not named
            f'{SGLANG}sglang:num_requests_total{{model_name="other"}} 1\n',
            replace(SGLANGS, model=None, figures=SGLANGS.figures._replace(requests=13)),
        ),
        (  # odd lines cost only themselves: not a number, negative, without quotes, cut off
            (
                "llamacpp:prompt_seconds_total NaN\n"
                "llamacpp:tokens_predicted_total -3\n"
                'llamacpp:tokens_predicted_seconds_total{a="b\n'
                "llamacpp:prompt_tokens_total 7\n"
                "llamacpp:requests_processing x\n"
            ),
            Sample(ServerFigures(evaluated=7)),
        ),
        ("llamacpp:prompt_tokens_total 1\n" * 5000, None),  # more series than any server has
        ("", None),
        ("<html>404</html>", None),
        ("python_gc_objects_collected_total 1.0\n", None),
        ("llamacpp:n_decode_total 3", None),
    ],
)
def test_what_a_page_says(page, sample):
    """None where it is that of something else."""
    assert sample_of(page) == sample


@given(st.text() | st.sampled_from([LLAMA, VLLM, SGLANG]), st.integers(0, 3000), st.text())
def test_no_page_raises(page, at, noise):
    """Whatever comes: a page with something in its middle, or no page at all."""
    sample_of(page[:at] + noise + page[at:])


# The line that vLLM 0.32 writes, and what it writes of a model with Mamba layers.
CONFIG = (
    'vllm:cache_config_info{_block_size_resolved="True",block_size="128",cache_dtype="auto",'
    'enable_prefix_caching="True",engine="0",gpu_memory_utilization="0.92",hash_block_size="None",'
    'kv_cache_dtype_skip_layers="[]",kv_cache_max_concurrency="64.0",'
    'kv_cache_memory_bytes="1073741824",kv_cache_size_tokens="4194304",mamba_block_size="None",'
    'mamba_cache_mode="none",num_gpu_blocks="32768",prefix_caching_hash_algo="sha256",'
    'sliding_window="None",user_specified_block_size="False"} 1.0\n'
)
KEPT = CacheConfig(128, 4_194_304, is_hybrid=False, reuses=True)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ((), KEPT),
        (
            (('mamba_block_size="None"', 'mamba_block_size="128"'),),
            replace(KEPT, is_hybrid=True),
        ),
        ((('caching="True', 'caching="False'),), replace(KEPT, reuses=False)),
        ((('kv_cache_size_tokens="4194304",', ""), ("32768", "10")), replace(KEPT, capacity=1280)),
        ((('size="128"', 'size="many"'),), replace(KEPT, block=None)),
        ((('size="128"', 'size="0"'),), replace(KEPT, block=None)),
        ((('size="128"', 'size="-5"'),), replace(KEPT, block=None)),
        ((('size="128"', f'size="{"9" * 30}"'),), replace(KEPT, block=None)),
        ((('_caching="True"', '_caching="perhaps"'),), replace(KEPT, reuses=None)),
    ],
)
def test_vllm_says_in_labels_how_its_memory_is_made(changes, expected):
    """Blocks, and how many; what is no number is not told."""
    line = CONFIG
    for old, new in changes:
        assert old in line
        line = line.replace(old, new, 1)
    assert sample_of(VLLM + line).cache == expected


def test_engines_that_differ_do_not_say_how_the_memory_is_made():
    """One block size is not that of all."""
    second = CONFIG.replace('engine="0"', 'engine="1"')
    assert sample_of(VLLM + CONFIG + second).cache == KEPT
    assert sample_of(VLLM + CONFIG + second.replace('size="128"', 'size="16"')).cache is None
    assert sample_of(VLLM).cache is None
