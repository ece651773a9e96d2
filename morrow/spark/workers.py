"""The Python that runs the tasks of a session, looked at once: it has to have Morrow.

Spark starts the ``python3`` on the path unless PYSPARK_PYTHON or ``spark.pyspark.python`` says otherwise, whichever
Python the driver runs. In local mode the driver's own is the right one; elsewhere a short job asks the executors.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakSet

from morrow.engine.errors import Unsupported
from morrow.engine.telling import shown
from morrow.spark.sessions import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VARIABLE, SETTING = "PYSPARK_PYTHON", "spark.pyspark.python"
LOCAL = ("local", "local[")
"""What the masters begin with whose executors are the driver's process; ``local-cluster[...]`` starts others."""

REMEDY = "set PYSPARK_PYTHON to a Python with Morrow before the session starts, or start it by morrow.spark.session"

NEEDED = ("morrow", "pyarrow", "polars", "msgspec")
"""What every task imports; in a checkout Morrow itself may be found without the others."""

_KNOWN: WeakSet[Any] = WeakSet()
"""The contexts whose workers have Morrow."""


def check_workers(spark: SparkSession) -> None:
    """Makes the workers of a session in local mode run this Python, unless the user has chosen one.

    Raises:
        Unsupported: they run another one, which has no Morrow, or another version of Python.
    """
    if is_connect(spark) or spark.sparkContext in _KNOWN:
        return
    context: Any = spark.sparkContext
    if is_local(spark) and not _is_chosen(context):
        context.pythonExec = sys.executable
    if context.pythonExec != sys.executable:
        _ask(context)
    _KNOWN.add(context)


def is_local(spark: SparkSession) -> bool:
    """Returns whether the executors of a session, not of Spark Connect, are the driver's own process."""
    master: str = cast("Any", spark.sparkContext).master
    return master == LOCAL[0] or master.startswith(LOCAL[1])


def _is_chosen(context: Any) -> bool:
    return bool(os.environ.get(VARIABLE)) or context.getConf().get(SETTING, None) is not None


def _ask(context: Any) -> None:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        found = context.parallelize([0], 1).mapPartitions(_looking()).collect()
    except (PySparkException, Py4JJavaError) as error:
        raise Unsupported(f"the workers' Python, {context.pythonExec} ({_last_line(error)}),", hint=REMEDY) from error
    if found:
        missing = "Morrow" if found[0] == NEEDED[0] else found[0]
        raise Unsupported(f"the workers' Python, {context.pythonExec}, without {missing}", hint=REMEDY)


def _looking() -> Callable[[Iterator[int]], list[str]]:
    """Returns a function that is sent as its code: the workers could not import one of this module."""
    names = NEEDED

    def look(_rows: Iterator[int]) -> list[str]:
        from importlib.util import find_spec

        return [name for name in names if find_spec(name) is None]

    return look


def _last_line(error: Exception) -> str:
    """Returns what the worker said: the line above the JVM's own stack."""
    lines = [line.strip() for line in str(error).splitlines()]
    said = [line for line in lines if line and not line.startswith(("at ", "...", "File ", "Traceback"))]
    python = [line for line in said if "Error" in line and not line.startswith("py4j")]
    return shown((python or said or [type(error).__name__])[-1])
