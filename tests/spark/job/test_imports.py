"""The imports of a starting task: each module with work is imported first in a new process, as executors do."""

from __future__ import annotations

import subprocess
import sys

import pytest

from morrow.spark.job.tasks import HOMES, Work, find_runner

FORKS = """
import os, sys
import numpy, polars, pyarrow, pyspark.sql  # children import Morrow alone, which takes a tenth of the time
for module in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        __import__(module)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, module
"""


def test_each_can_be_the_first_import_of_a_process() -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKS, *sorted(set(HOMES.values()))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_function_that_spark_runs_sets_up_its_process_first() -> None:
    """Polars fixes its thread count on import; NumPy and Arrow are not needed for unpickling."""
    script = "import sys, morrow.spark.job.tasks; print(sorted({'polars', 'numpy', 'pyarrow'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("work", Work)
def test_every_kind_of_work_is_done_somewhere(work: Work) -> None:
    assert callable(find_runner(work))
