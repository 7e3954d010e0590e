"""A new column on the page: a row in the record's table, and one in the page's."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cacheproxy
from cacheproxy.record.exchange import Exchange

from .builders import keep, record, store_in

PACKAGE = Path(cacheproxy.__file__).parent
OUTPUT = '    DataColumn("output", _ROWS, NUMBER, "exchange.usage.output", sums=True),\n'
WRITTEN = OUTPUT.replace("output", "written")
ASKED = """
import json, sys
from pathlib import Path
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.prompt.request import Request
from cacheproxy.record.exchange import Exchange, Outcome
from cacheproxy.record.columns import record_of
from cacheproxy.totals.file import open_file
from cacheproxy.totals.lists import requests
from cacheproxy.totals.store import TotalsStore
from cacheproxy.totals.lists import rows_of

store = TotalsStore(open_file(Path(sys.argv[1]))[0])
exchange = Exchange(
    Request("POST", "/v1/messages", (), b"{}"), status=200, outcome=Outcome.COMPLETE,
    bytes_down=1, wall=1.7e9, usage=Usage(1000, 300, 5, written=70),
)
store.record(record_of(exchange))
store.flush()
print(json.dumps({
    "page": [each["written"] for each in requests(store)["requests"]],
    "csv": rows_of(store, "requests", 0)[0].splitlines()[0].split(","),
    "sums": store.rows("SELECT DISTINCT written FROM rollups WHERE at + step > 1.7e12 - 6e4"),
}))
"""


@pytest.mark.slow
def test_a_row_in_the_table_is_all_that_the_file_its_sums_and_its_pages_need(tmp_path):
    """Also for a file that was there before. The page needs one more, in ``requests.js``."""
    assert "written" in Exchange.__dataclass_fields__["usage"].default.__struct_fields__
    folder = tmp_path / "state"
    store = store_in(folder)
    keep(store, record())
    store.connection.close()
    package = shutil.copytree(PACKAGE, tmp_path / "changed" / "cacheproxy")
    table = package / "record" / "columns.py"
    text = table.read_text()
    assert text.count(OUTPUT) == 1
    table.write_text(text.replace(OUTPUT, OUTPUT + WRITTEN))
    environ = os.environ | {"PYTHONPATH": str(package.parent)}
    done = subprocess.run(
        [sys.executable, "-c", ASKED, str(folder)],
        env=environ, cwd=folder, check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["page"] == [70, None]
    place = found["csv"].index("output")
    assert found["csv"][place : place + 3] == ["output", "written", "tools"]
    assert {"written": 70} in found["sums"]


def test_the_pages_table_of_requests_is_data():
    """Its head and its rows are made of the same rows."""
    static = PACKAGE / "web" / "static"
    assert "columnheader" not in (static / "index.html").read_text()
    assert "const COLUMNS = [" in (static / "requests.js").read_text()
