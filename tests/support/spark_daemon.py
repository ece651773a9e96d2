"""The daemon that forks Spark's Python workers, with all imports of tasks made once.

A worker ends with each task that fails, and the imports of the next one take two seconds of CPU. `test_cluster` has
workers of Spark's own daemon, and `job/test_imports.py` imports each module of tasks first in a new process.
"""

from __future__ import annotations

import gc
import os
from importlib import import_module

from morrow.spark.job.tasks import HOMES, MIN_THREADS

os.environ.setdefault("POLARS_MAX_THREADS", str(MIN_THREADS))  # as tasks do before they import Polars

import pandas  # noqa: F401  # pyarrow imports pandas when it converts
import polars  # noqa: F401
import pyarrow.dataset
import pyarrow.parquet  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

if __name__ == "__main__":
    for module in sorted(set(HOMES.values())):
        import_module(module)
    gc.freeze()
    manager()
