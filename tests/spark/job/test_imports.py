"""What tasks import when they begin: each module first, in a process of its own, as executors do."""

from __future__ import annotations

import subprocess
import sys

import pytest

FIRST = ("writing.work", "maintenance.compaction_work", "maintenance.sort_work", "reading.work")


@pytest.mark.parametrize("module", FIRST)
def test_a_process_that_imports_this_first(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import morrow.spark.{module}"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
