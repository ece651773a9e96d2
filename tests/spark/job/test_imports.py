"""The imports of a starting task: each module with work is imported first in a new process, as executors do."""

from __future__ import annotations

import subprocess
import sys

import pytest

from morrow.spark.job.tasks import HOMES, Work, find_runner


@pytest.mark.parametrize("module", sorted(set(HOMES.values())))
def test_a_process_that_imports_this_first(module: str) -> None:
    done = subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_function_that_spark_runs_sets_up_its_process_first() -> None:
    """Polars fixes its thread count on import; NumPy and Arrow are not needed for unpickling."""
    script = "import sys, morrow.spark.job.tasks; print(sorted({'polars', 'numpy', 'pyarrow'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("work", Work)
def test_every_kind_of_work_is_done_somewhere(work: Work) -> None:
    assert callable(find_runner(work))
