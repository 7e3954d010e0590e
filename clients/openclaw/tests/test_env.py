"""What OpenClaw is told."""

import json

from cacheproxy_openclaw import cacheproxy_setup

from cacheproxy import Need

URL = "http://127.0.0.1:8081"


def test_it_is_started_with_a_file_that_includes_the_users(tmp_path, monkeypatch):
    """Which stays as it is, and may not be there."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("OPENCLAW_CONFIG_PATH", raising=False)
    need = Need(URL, model="m", folder="/there")
    launch = cacheproxy_setup(need).launch
    assert launch.variables == {"OPENCLAW_CONFIG_PATH": "/there/openclaw.json"}
    assert launch.files == {"openclaw.json": cacheproxy_setup(need).content}
    users = tmp_path / ".openclaw/openclaw.json"
    users.parent.mkdir()
    users.write_text("{}")
    launch = cacheproxy_setup(need).launch
    found = json.loads(launch.files["openclaw.json"])
    assert found.pop("$include") == str(users)
    assert found == json.loads(cacheproxy_setup(need).content)
    assert launch.variables["OPENCLAW_INCLUDE_ROOTS"] == str(users.parent)
