"""Pages of /metrics as the servers write them, and as they should not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.server.counters import Figures
from cacheproxy.core.server.metrics_page import CacheConfig, Sample, sample_of

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
# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.76368122145e+09
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="org/model"} 2.0
vllm:num_requests_running{engine="1",model_name="org/model"} 1.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="org/model"} 0.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="org/model"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="org/model"} 0.5
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="org/model"} 1200.0
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0",model_name="org/model"} 800.0
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="org/model"} 1000.0
vllm:prompt_tokens_total{engine="1",model_name="org/model"} 200.0
# TYPE vllm:prompt_tokens_created gauge
vllm:prompt_tokens_created{engine="0",model_name="org/model"} 1.7636812e+09
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="org/model"} 55.0
# TYPE vllm:request_success_total counter
vllm:request_success_total{engine="0",finished_reason="stop",model_name="org/model"} 4.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="org/model"} 1.0
# TYPE vllm:request_prefill_time_seconds histogram
vllm:request_prefill_time_seconds_bucket{engine="0",le="0.3",model_name="org/model"} 5.0
vllm:request_prefill_time_seconds_count{engine="0",model_name="org/model"} 5.0
vllm:request_prefill_time_seconds_sum{engine="0",model_name="org/model"} 1.5
"""

SGLANG = """\
# TYPE sglang:prompt_tokens_total counter
sglang:prompt_tokens_total{model_name="org/model"} 8.0e+03
# TYPE sglang:generation_tokens_total counter
sglang:generation_tokens_total{model_name="org/model"} 700.0
# TYPE sglang:num_requests_total counter
sglang:num_requests_total{model_name="org/model"} 12.0
# TYPE sglang:token_usage gauge
sglang:token_usage{model_name="org/model"} 0.28
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{model_name="org/model"} 3.0
# TYPE sglang:num_queue_reqs gauge
sglang:num_queue_reqs{model_name="org/model"} 1.0
"""


def test_llama_server():
    """Its prompt tokens are those evaluated; cached ones stand beside them."""
    assert sample_of(LLAMA) == Sample(
        Figures(evaluated=385, reused=1535, generated=33, prefill=0.041005, generation=0.009887),
        running=1,
        waiting=2,
    )


def test_vllm():
    """Engines are added up, the fullest cache counts, a fraction of a second tells the start."""
    sample = sample_of(VLLM)
    assert sample == Sample(
        Figures(prompt=1200, reused=800, generated=55, prefill=1.5, requests=5),
        model="org/model",
        start="1763681221.45",
        running=3,
        waiting=0,
        kv=0.5,
    )


def test_vllm_says_cached_tokens_better_than_hits():
    cached = 'vllm:prompt_tokens_cached_total{engine="0",model_name="org/model"} 790.0\n'
    assert sample_of(VLLM + cached).figures.reused == 790


def test_sglang_before_its_first_hit():
    """The series of cached tokens is not there yet: that is zero, not unknown."""
    sample = sample_of(SGLANG)
    assert sample.figures == Figures(prompt=8000, reused=0, generated=700, requests=12)
    assert (sample.running, sample.waiting, sample.kv) == (3, 1, 0.28)


def test_sglang_adds_up_where_its_hits_came_from():
    cached = "".join(
        f'sglang:cached_tokens_total{{cache_source="{source}",model_name="org/model"}} {count}\n'
        for source, count in (("device", 300), ("host", 21))
    )
    assert sample_of(SGLANG + cached).figures.reused == 321


@pytest.mark.parametrize(
    "page",
    [
        "",
        "<html>404</html>",
        "python_gc_objects_collected_total 1.0\n",
        "llamacpp:n_decode_total 3",
    ],
)
def test_a_page_of_something_else_is_no_sample(page):
    assert sample_of(page) is None


def test_odd_lines_cost_only_themselves():
    """Not a number, negative, without quotes, cut off."""
    odd = (
        "llamacpp:prompt_seconds_total NaN\n"
        "llamacpp:tokens_predicted_total -3\n"
        'llamacpp:tokens_predicted_seconds_total{a="b\n'
        "llamacpp:prompt_tokens_total 7\n"
        "llamacpp:requests_processing x\n"
    )
    assert sample_of(odd) == Sample(Figures(evaluated=7))


def test_several_models_are_not_named():
    other = SGLANG + 'sglang:num_requests_total{model_name="other"} 1\n'
    assert sample_of(SGLANG).model == "org/model"
    assert sample_of(other).model is None


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
