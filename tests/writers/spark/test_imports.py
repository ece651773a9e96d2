"""What tasks import when they begin: each module first, in a process of its own, as executors do."""

from __future__ import annotations

import subprocess
import sys

import pytest

FIRST = ("writers.spark.work", "writers.spark.compaction_work", "writers.spark.sort_work", "readers.spark.work")


@pytest.mark.parametrize("module", FIRST)
def test_a_process_that_imports_this_first(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import morrow.{module}"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
