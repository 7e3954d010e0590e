"""``python -m cacheproxy``: the same as the ``cacheproxy`` command."""

from __future__ import annotations

from cacheproxy.cli.main import main

if __name__ == "__main__":
    main(prog_name="cacheproxy")
