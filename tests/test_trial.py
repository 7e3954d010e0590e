"""What ``trial tests`` runs: pytest with the quick tests, since none of them is a TestCase."""

import subprocess
import sys
import unittest
from pathlib import Path


class QuickTests(unittest.TestCase):
    """For trial alone: pytest collects the tests by itself."""

    __test__ = False

    def test_pytest_passes(self):
        """Without this test trial would run nothing, and say PASSED."""
        command = [sys.executable, "-m", "pytest", "-m", "not slow", "-n", "2"]
        root = Path(__file__).parents[1]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
