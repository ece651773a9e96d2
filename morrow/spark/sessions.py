"""A SparkSession with what Morrow needs, or the one that runs already."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from morrow.engine.errors import InvalidArgument
from morrow.spark.java import use_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REMOTE = "sc://"

NEEDED = {
    # Spark has the type TIME from 4.1 on, and lets nobody compute with it unless asked to.
    "spark.sql.timeType.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Files are named one by one; above 32 of them Spark would start a job only to look for them.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
}
"""Settings that every session of Morrow's has, unless the caller says otherwise; all may be set while it runs."""


def session(app_name: str = "morrow", master: str | None = None, **conf: object) -> SparkSession:
    """The SparkSession of this process, made if there is none, with the settings that Morrow needs.

    A session that runs already is given the settings that may still be set, and is returned. A new one starts the Java
    of `morrow.spark.find_java`, and its workers run the Python of this process unless PYSPARK_PYTHON says otherwise.

    Args:
        app_name: what Spark's pages call the application.
        master: where Spark runs (``local[4]``, ``spark://host:7077``); None for what Spark is configured with.
        conf: Spark's settings by their names: ``session(**{"spark.driver.memory": "4g"})``.

    Raises:
        Unsupported: there is no Java 17 or newer.
        InvalidArgument: a setting that is not one of Spark's, or a `master` that is a server of Spark Connect.
    """
    if master is not None and master.startswith(REMOTE):
        raise InvalidArgument(
            f"{master!r} is Spark Connect: use the session of SparkSession.builder.remote({master!r})"
        )
    for name in conf:
        if not name.startswith("spark."):
            raise InvalidArgument(f"{name!r} is no setting of Spark's: their names begin with 'spark.'")
    from pyspark.sql import SparkSession

    if SparkSession.getActiveSession() is None:
        use_java()
        # Workers would run whatever is called python3; in local mode the driver's own Python is the right one.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
    for name, value in {**NEEDED, **conf}.items():
        builder = builder.config(name, _text(value))
    return builder.getOrCreate()


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
