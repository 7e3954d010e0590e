"""docs/fleet.md: a file or a command for each router, with the ports of its picture.

The routers are run by ``benchmarks/routers.py``, HAProxy by tests/doctor, too.
"""

import re

from .routers import PAGE, recipes


def test_the_page_has_a_file_or_a_command_for_each_router():
    """And its ports are those of the picture."""
    found = recipes()
    assert list(found) == [
        *("HAProxy", "nginx", "Caddy", "Envoy"),
        *("vllm-router", "SMG", "sglang-router", "LiteLLM", "Ray Serve"),
    ]
    for recipe in found.values():
        text = "".join([recipe.command, *recipe.files.values()])
        assert set(re.findall(r"\b90\d\d\b", text)) == {"9000", "9001", "9002", "9003"}
        assert recipe.options[0] == "--session-header"
        assert recipe.options[1] in PAGE.read_text()
