"""The page on metrics and the dashboard are held against the code, and against a real scrape."""

from __future__ import annotations

import contextlib
import json
import os
import re
from pathlib import Path

import pytest

from cacheproxy.record import metrics as table
from tests import transcript
from tests.metrics.builders import parsed
from tests.observe.exchanges import body
from tests.proxy.harness import Client, Proxy, Upstream, eventually, whole

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/metrics.md").read_text()
DASHBOARD = json.loads((ROOT / "docs/grafana.json").read_text())
STANDING = [row for row in vars(table).values() if isinstance(row, table.MetricRow)]
ROWS = {row.name: row for row in (*table.COUNTED, *STANDING)}
SERIES = {
    series: row
    for row in ROWS.values()
    for series in (
        [f"{row.name}_{part}" for part in ("bucket", "sum", "count")] if row.buckets else [row.name]
    )
}
BROKEN = """
from cacheproxy import hookimpl

@hookimpl
def cacheproxy_exchange_finished(exchanges):
    raise RuntimeError("no")
"""


def expressions() -> list[tuple[str, str]]:
    """Each expression of the dashboard, with the legend that uses its labels."""
    found = [
        (target["expr"], target["legendFormat"])
        for panel in DASHBOARD["panels"]
        for target in panel["targets"]
    ]
    variables = [each for each in DASHBOARD["templating"]["list"] if each["type"] == "query"]
    return found + [(each["query"]["query"], "") for each in variables]


QUESTIONS = [
    (cell.replace("\\|", "|"), "")
    for cell in re.findall(r"^\| [A-Z][^|]*\? \| `(.*)` \|$", PAGE, re.MULTILINE)
]


def documented() -> dict[str, tuple[str, set[str], str, str]]:
    """Name: type, labels, unit and words, as the page has them."""
    rows = re.findall(
        r"^\| `(cacheproxy_\w+)` \| (\w+) \| ([^|]*) \| ([^|]*) \| ([^|]*) \|$", PAGE, re.MULTILINE
    )
    return {
        name: (kind, set(re.findall(r"`(\w+)`", labels)), unit, says)
        for name, kind, labels, unit, says in rows
    }


def test_names_units_and_types_go_together():
    """By Prometheus' rules: base units, and ``_total`` on counters alone."""
    for name, (kind, _, unit, _) in documented().items():
        assert unit
        assert name.endswith("_total") == (kind == "counter")
        for part in ("seconds", "tokens"):
            assert (f"_{part}" in name) == (unit == part), name
        assert name.endswith("_ratio") == (unit == "0 to 1"), name


def test_the_dashboard_is_one_that_grafana_can_import():
    """Panels with numbers of their own that do not overlap, and a data source to be chosen."""
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 10
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
        assert panel["description"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["targets"]
    variables = {each["name"] for each in DASHBOARD["templating"]["list"]}
    assert variables == {"datasource", "upstream", "client"}
    used = set(re.findall(r"\$(\w+)", json.dumps(panels))) - {"__range", "__rate_interval"}
    assert used <= variables
    assert "id" not in DASHBOARD


@pytest.mark.parametrize(("expression", "legend"), [*expressions(), *QUESTIONS])
def test_an_expression_uses_metrics_and_labels_that_are_there(expression, legend):
    """By the table: counters only as rates, histograms by their parts."""
    names = re.findall(r"\bcacheproxy_\w+", expression)
    assert names
    for name in names:
        row = SERIES[name]
        selected = re.search(rf"{name}\b(?:\{{([^}}]*)\}})?(\[)?", expression)
        labels = set(re.findall(r"(\w+)\s*=", selected[1] or ""))
        assert labels <= set(row.labels) | {"le"}, name
        if row.kind != "gauge" and not expression.startswith("label_values"):
            assert selected[2], f"{name} only grows: rate() or increase()"
    for grouped in re.findall(r"by \(([^)]*)\)", expression):
        for label in grouped.split(", "):
            assert any(label in (*SERIES[name].labels, "le") for name in names), label
    kept = set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", expression))))
    if " by (" not in expression and not expression.startswith(("sum", "max", "min")):
        kept = set(SERIES[names[0]].labels)
    assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= kept


def llama_like(peer, received):
    """A llama-server: its own pages, and answers that say what was reused and how long it took."""
    path = received.line.split(b" ")[1]
    pages = {
        b"/health": {"status": "ok"},
        b"/slots": [{"id": 0, "n_ctx": 4096, "n_prompt_tokens": 100, "is_processing": False}],
        b"/props": {"total_slots": 1, "build_info": "b9724-x"},
        b"/v1/chat/completions": {
            "usage": {"prompt_tokens": 2000, "completion_tokens": 5},
            "timings": {
                "cache_n": 1900 if b"again" in received.body else 0,
                "prompt_n": 100 if b"again" in received.body else 2000,
                "prompt_ms": 50.0,
                "predicted_n": 5,
                "predicted_ms": 100.0,
            },
        },
    }
    page = pages.get(path)
    status = b"200 OK" if page is not None else b"404 Not Found"
    payload = json.dumps(page or {}).encode()
    peer.send(whole(payload, b"Content-Type: application/json", status=status))


@pytest.fixture(scope="module")
def scraped(tmp_path_factory):
    """What the page says after a break, an edit, a move, and with a failing plugin."""
    folder = tmp_path_factory.mktemp("scraped")
    rule = "[[rule]]\nname = 'stamp'\nwhere = 'system'\npattern = 'stamp=\\d+'\nreplacement = ''\n"
    upstreams = [Upstream(), Upstream()]
    for number, upstream in enumerate(upstreams):
        upstream.reset(llama_like)
        rule += f'[[upstream]]\nname = "big{number}"\nurl = "{upstream.url}"\ncost_in = 1\n'
    (folder / "config.toml").write_text(rule)
    info = folder / "site" / "broken-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "site" / "broken.py").write_text(BROKEN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[cacheproxy]\nbroken = broken\n")
    path = os.pathsep.join([str(folder / "site"), os.environ.get("PYTHONPATH", "")])
    environ = {"PYTHONPATH": path, "CACHEPROXY_POLL": "0.2"}
    with Proxy(folder, "--config", "config.toml", **environ) as proxy:
        ask(proxy, f"stamp=1 {'word ' * 400}", "a")
        ask(proxy, f"stamp=2 {'word ' * 400}", "a", "b", "again")
        next(each for each in upstreams if has_answered(each)).close()
        ask(proxy, f"another {'word ' * 400}", "a", "b", "c")
        missing = set(SERIES) - {"cacheproxy_queued_seconds_total"}
        with contextlib.suppress(AssertionError):  # the tests name what is missing
            eventually(lambda: not missing.difference(name for name, _ in parsed(scrape(proxy))))
        yield scrape(proxy)
    for upstream in upstreams:
        upstream.close()


def has_answered(upstream):
    return any(b"stamp=" in each.body or b"again" in each.body for each in upstream.requests.queue)


def ask(proxy, system, *texts):
    said = body(*texts)
    messages = [{"role": "system", "content": system}, *said["messages"]]
    sent = json.dumps({"model": "qwen", "messages": messages}).encode()
    with Client(proxy.address) as client:
        asked = client.ask("/v1/chat/completions", sent, b"X-Session-Id: s1")
        assert asked.answer().status == 200


def scrape(proxy):
    with Client(proxy.address) as client:
        return client.ask("/_cacheproxy/metrics", method=b"GET").answer().body.decode()


@pytest.mark.slow
def test_a_real_scrape_has_every_metric_with_its_labels(scraped):
    """Each metric of the table, and no other; in this scrape nobody had to wait."""
    found = parsed(scraped)
    assert {name for name, _ in found} == set(SERIES) - {"cacheproxy_queued_seconds_total"}
    for name, labels in found:
        given = {label for label, _ in labels}
        assert given - {"le"} == set(SERIES[name].labels), name


@pytest.mark.slow
def test_a_real_scrape_has_a_series_for_every_expression(scraped):
    """Selectors with fixed values find something: no label value is misspelt."""
    found = parsed(scraped)
    for expression, _ in [*expressions(), *QUESTIONS]:
        for name, selector in re.findall(r"\b(cacheproxy_\w+)(?:\{([^}]*)\})?", expression):
            wanted = re.findall(r'(\w+)(=~|=)"([^"]*)"', selector)
            assert any(
                name == series
                and all(
                    re.fullmatch(re.sub(r"\$\w+", ".*", pattern), dict(labels)[label])
                    for label, _, pattern in wanted
                )
                for series, labels in found
            ), (name, selector)


def test_all_that_is_said():
    transcript.holds("docs.txt", globals())
