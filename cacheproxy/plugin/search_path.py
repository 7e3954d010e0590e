"""Where plugins are searched: on Python's path, except the working directory.

``python -c`` and ``python -m`` put the working directory on Python's path, as a relative
PYTHONPATH does. If you start the proxy inside somebody else's repository, it must not load that
repository's plugins, nor its modules with the name of an installed plugin.
"""

from __future__ import annotations

import os
import re
import site
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import EntryPoint, distributions
from pathlib import Path


def search_path() -> list[str]:
    """Return the entries of ``sys.path`` that would be there wherever the process was started.

    The working directory is among them only where it was put on purpose: it is a site-packages
    folder, a .pth file in one names it (an editable install), PYTHONPATH has it as an absolute
    path, or cacheproxy itself lies there.
    """
    given = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    lured = {_real("."), *(_real(part) for part in given if not Path(part).is_absolute())}
    wanted = {_real(part) for part in given if Path(part).is_absolute()}
    wanted |= {_real(part) for part in _installed()}
    return [
        entry
        for entry in sys.path
        if Path(entry).is_absolute() and (_real(entry) not in lured or _real(entry) in wanted)
    ]


@contextmanager
def without_working_directory() -> Iterator[None]:
    """Import from ``search_path()`` alone for a while. Not for several threads at once."""
    before = list(sys.path)
    sys.path[:] = search_path()
    try:
        yield
    finally:
        sys.path[:] = [*(entry for entry in sys.path if entry not in before), *before]


def entry_points(group: str) -> list[EntryPoint]:
    """Return the entry points of ``group`` in the distributions on ``search_path()``, by name.

    Of two distributions of one name the first one on the path counts, as for imports. One whose
    metadata cannot be read is as good as not installed.
    """
    found: list[EntryPoint] = []
    seen: set[str] = set()
    for distribution in distributions(path=search_path()):
        with suppress(Exception):
            entries = distribution.entry_points.select(group=group)
            # Read only now: a Python may have hundreds of distributions.
            name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower() if entries else ""
            if name and name not in seen:
                seen.add(name)
                found += entries
    return sorted(found, key=lambda entry: entry.name)


def _installed() -> Iterator[str]:
    """Yield the site-packages folders, what their .pth files name, and where cacheproxy lies."""
    folders = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    with suppress(AttributeError):  # an embedded Python may have no site
        folders.update([*site.getsitepackages(), site.getusersitepackages()])
    for folder in folders:
        yield folder
        with suppress(OSError):
            for file in Path(folder).glob("*.pth"):
                for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
                    if line.strip() and not line.startswith(("#", "import ", "import\t")):
                        yield str(Path(folder) / line.rstrip())
    yield str(Path(__file__).parents[2])


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except OSError:  # the working directory is gone
        return path
