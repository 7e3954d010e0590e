"""The tests. What they import is compiled once, and not by each of their processes.

Containers often set PYTHONDONTWRITEBYTECODE, which is for images: each process then collects for
19 s of a processor instead of 7.
"""

import os
import sys

sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
