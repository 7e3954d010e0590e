"""Write docs/configuration.md from the one table in cacheproxy.config.

    python docs/generate.py

A test compares the page with what this makes.
"""

# ruff: noqa: INP001 - a script beside the pages that it writes
from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import get_args, get_type_hints

import msgspec

from cacheproxy.config import ENV_PREFIX, Config, Option, RuleTable, options
from cacheproxy.daemon.reloading import NEED_A_RESTART
from cacheproxy.tables import RouteTable, UpstreamTable

PAGE = Path(__file__).with_name("configuration.md")
_KINDS = {str: "text", int: "whole number", float: "number", bool: "yes or no", tuple: "names"}
_HEAD = """\
# Configuration

<!-- Made by docs/generate.py from cacheproxy/config.py: change it there. -->

Every setting is an option of `cacheproxy serve` (and of `twistd cacheproxy`), an environment
variable, and a key of the TOML file. The command line wins over the environment, which wins over
the file.

The file is the one that `--config` or `CACHEPROXY_CONFIG` names, else `cacheproxy/config.toml` in
your configuration folder: `~/.config` on Linux, `~/Library/Application Support` on macOS,
`%LOCALAPPDATA%\\cacheproxy` on Windows. `SIGHUP` reads it again; {restart} need a restart.

```toml
upstream = "http://localhost:8080"
disable = ["claude-pin-git-status"]
max_body = 128
```

A setting that cannot be used is one line and exit code 2.

"""
_TABLES = """\
## `[[upstream]]`

In the file only, instead of `upstream`: one of several model servers, with the keys {upstream}.
[Several upstreams](routes.md) explains them.

## `[[route]]`

In the file only: which requests go to which of them, with the keys {route}.

"""
_RULE = """\
## `[[rule]]`

In the file only: a rule of your own, with the keys {keys}. [Rules](rules.md) explains them.
"""


def page() -> str:
    """Return the whole page."""
    head = _HEAD.format(restart=_joined(NEED_A_RESTART))
    return head + "\n".join(map(_section, options())) + "\n" + _rules()


def _section(row: Option) -> str:
    lines = [
        f"## `{row.field}`",
        "",
        f"{row.help[0].upper()}{row.help[1:]}.",
        "",
        "| | |",
        "| --- | --- |",
        f"| command line | `--{row.flag}` |",
        f"| environment | `{ENV_PREFIX}{row.field.upper()}` |",
        f"| kind | {_KINDS[row.kind]}{_range(row.field)} |",
        f"| default | {_default(row)} |",
        "",
    ]
    return "\n".join(lines)


def _default(row: Option) -> str:
    if row.kind is bool:
        return "no"
    if row.default in ((), ""):
        return "none"
    return f"`{row.default}`"


def _range(field: str) -> str:
    """Return which values can be had, where the table has limits."""
    hint = get_type_hints(Config, include_extras=True)[field]
    (meta,) = (extra for extra in get_args(hint) if isinstance(extra, msgspec.Meta))
    low = f" of at least {meta.ge}" if meta.ge is not None else ""
    low = f" above {meta.gt}" if meta.gt is not None else low
    high = f"{' and' if low else ''} at most {meta.le}" if meta.le is not None else ""
    return f"{low}{high}"


def _rules() -> str:
    tables = _TABLES.format(
        upstream=_joined(UpstreamTable.__struct_fields__),
        route=_joined(RouteTable.__struct_fields__),
    )
    return tables + _RULE.format(keys=_joined(RuleTable.__struct_fields__))


def _joined(names: Iterable[str]) -> str:
    *most, last = (f"`{name}`" for name in names)
    return f"{', '.join(most)} and {last}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
