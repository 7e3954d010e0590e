"""The alert rules of the documentation, by Prometheus' own tool."""

import json
import subprocess
from pathlib import Path

import pytest

from tests import needs

RULES = Path(__file__).parents[2] / "docs" / "alerts.yaml"
LOST = 'cacheproxy_lost_tokens_total{{upstream="{}",reason="evicted"}}'
REUSED = 'cacheproxy_prompt_tokens_total{{upstream="{}",source="reused"}}'
SERIES = {
    LOST.format("first"): "_x10 50000x90",
    LOST.format("little"): "0+500x100",
    REUSED.format("little"): "0+100x100",
    LOST.format("often"): "0+3000x100",
    REUSED.format("often"): "0+2000x100",
    LOST.format("seldom"): "0+3000x100",
    REUSED.format("seldom"): "0+20000x100",
}
"""Of four upstreams, by the minute."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("alert", "minute", "upstreams"),
    [
        ("PromptCacheLost", 9, set()),
        ("PromptCacheLost", 12, {"first"}),
        ("PromptCacheLost", 90, {"often", "seldom"}),
        ("PromptCacheLittleUsed", 90, {"often"}),
    ],
)
def test_alerts_fire_for_what_they_name(tmp_path, alert, minute, upstreams):
    """For a reason's first break, too, which increase() alone does not see."""
    condition = f'ALERTS{{alertname="{alert}",alertstate="firing"}}'
    expected = [{"labels": f'{{upstream="{name}"}}', "value": 1} for name in sorted(upstreams)]
    case = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in SERIES.items()],
        "promql_expr_test": [
            {
                "expr": f"count by (upstream) ({condition})",
                "eval_time": f"{minute}m",
                "exp_samples": expected,
            }
        ],
    }
    file = tmp_path / "test.json"  # which is YAML as well
    file.write_text(json.dumps({"rule_files": [str(RULES)], "tests": [case]}))
    done = subprocess.run(
        [needs.program("promtool"), "test", "rules", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
