"""What Qwen Code is told."""

from __future__ import annotations

import json
from dataclasses import replace

from cacheproxy_qwen_code import cacheproxy_setup

from cacheproxy import Need

URL = "http://127.0.0.1:8081"
BARE = Need(URL)
FULL = Need(URL, model='Qwen "3" \\ü', context=131_072)
TOKEN = Need(URL, token="SECRET", model="m", context=4096)
BOTH = Need(URL, token="SECRET", api_key="SERVERKEY", model="m", context=4096)


def test_what_it_is_told():
    """Variables, a note on the window, and a warning where the token needs a header."""
    assert cacheproxy_setup(FULL).variables == {
        "OPENAI_BASE_URL": f"{URL}/v1",
        "OPENAI_API_KEY": "cacheproxy",
        "OPENAI_MODEL": FULL.model,
    }
    (note,) = cacheproxy_setup(FULL).notes
    setting = json.loads(note[note.index("{") :])
    assert setting == {"model": {"generationConfig": {"contextWindowSize": 131_072}}}
    assert "OPENAI_MODEL" not in cacheproxy_setup(BARE).variables
    (warning,) = cacheproxy_setup(BOTH).warnings
    assert "Qwen Code cannot send both the proxy's token" in warning
    assert cacheproxy_setup(TOKEN).warnings == ()


def test_it_is_started_with_the_window_in_a_file():
    """Of the system's settings, which stand beside the user's own."""
    launch = cacheproxy_setup(replace(FULL, folder="/there")).launch
    assert launch.variables == {"QWEN_CODE_SYSTEM_SETTINGS_PATH": "/there/settings.json"}
    (setting,) = launch.files.values()
    assert setting in cacheproxy_setup(FULL).notes[0]
    assert cacheproxy_setup(BARE).launch.files == {}
