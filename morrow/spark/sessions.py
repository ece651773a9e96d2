"""The SparkSession of the process, with the settings that Morrow needs; and what Morrow asks a session."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from morrow.engine.errors import InvalidArgument
from morrow.engine.io.loans import sweep
from morrow.spark.java import use_java
from morrow.spark.quiet import quiet_settings
from morrow.spark.versions import sessions_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REMOTE = "sc://"

UNKNOWN_CORES = 8
"""The number of tasks assumed to run at once where nothing reports it: Spark Connect, planners of the data source."""

NEEDED = {
    # Spark has the type TIME from 4.1 on, and disables it unless this is set.
    "spark.sql.timeType.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Files are named one by one; above 32 of them Spark would start a job only to look for them.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
}
"""Default settings of Morrow's sessions; all may be set while a session runs."""


def session(app_name: str = "morrow", master: str | None = None, **conf: object) -> SparkSession:
    """Returns the SparkSession of this process, or a new one, with the settings that Morrow needs.

    A running session gets the settings that may still be changed. A new one starts the Java of
    `morrow.spark.find_java`, and its workers run the Python of this process unless PYSPARK_PYTHON is set.

    Args:
        app_name: the application's name in Spark's UI.
        master: Spark's master (``local[4]``, ``spark://host:7077``); None: as Spark is configured.
        conf: Spark's settings by their names: ``session(**{"spark.driver.memory": "4g"})``.

    Raises:
        Unsupported: there is no Java 17 or newer.
        InvalidArgument: an unknown setting of Spark, or a `master` that is a server of Spark Connect.
    """
    if master is not None and master.startswith(REMOTE):
        raise InvalidArgument(
            f"{master!r} is Spark Connect: use the session of SparkSession.builder.remote({master!r})"
        )
    for name in conf:
        if not name.startswith("spark."):
            raise InvalidArgument(f"{name!r} is no setting of Spark's: their names begin with 'spark.'")
    from pyspark.sql import SparkSession

    sweep()
    settings = {**NEEDED, **conf}
    if SparkSession.getActiveSession() is None:
        settings = {**quiet_settings(conf), **settings}
        use_java()
        # Workers would run the python3 on the path; in local mode the driver's own Python is the right one.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, _text(value))
    return builder.getOrCreate()


def cores(spark: SparkSession) -> int:
    """Returns the number of tasks that run at once."""
    from pyspark.errors import PySparkException

    try:
        return max(int(spark.sparkContext.defaultParallelism), 1)
    except PySparkException:
        return UNKNOWN_CORES


@contextmanager
def active(spark: SparkSession) -> Iterator[None]:
    """Makes a session the active one of this thread, for a time. Some methods of PySpark do so for good."""
    from pyspark.sql import SparkSession

    private: Any = SparkSession
    sessions = sessions_class(spark)
    before, known = sessions.getActiveSession(), private._activeSession
    sessions.setActiveSession(cast("Any", spark)._jsparkSession)
    try:
        yield
    finally:
        private._activeSession = known
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def is_connect(face: Any) -> bool:
    """Returns whether a session, or another object of PySpark, is one of Spark Connect."""
    return ".connect." in type(face).__module__


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
