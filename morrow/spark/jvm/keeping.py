"""Files that Spark has found by itself, kept as they were found.

``REFRESH TABLE`` on a view has Spark list the files of its scans again, and those that are gone are left out without an
error. With this index they stay, so that reading them fails.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from morrow.engine.errors import Unsupported
from morrow.spark.jvm.compiling import PACKAGE, cooked, package
from morrow.spark.versions import dataset_of, is_scala_2_12

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEPT = f"{PACKAGE}.kept"
"""The folder of the text."""
INDEX = "KeptFiles"
SEQUENCE = "scala.collection.{}Seq"
"""The sequence of Scala's in Spark's interfaces; in Scala 2.12 not only the immutable one."""

_KNOWN: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""The constructor of the index, or None, by the way to a JVM."""
_LOCK = Lock()


def kept(frame: DataFrame, spark: SparkSession) -> DataFrame:
    """Returns the same scan of files with a list that no refresh changes.

    Returns `frame` where there is no JVM to reach, or its Spark does not take the class.
    """
    from py4j.protocol import Py4JError
    from pyspark.sql import DataFrame as Classic

    make = _constructor(spark) if hasattr(spark, "_jsparkSession") else None
    if make is None:
        return frame
    try:
        scan = cast("Any", frame)._jdf.queryExecution().analyzed()
        files = scan.relation()
        index = make.newInstance(_array(spark, [files.location()]))
        others = (files.partitionSchema(), files.dataSchema(), files.bucketSpec(), files.fileFormat(), files.options())
        rest = [scan.productElement(number) for number in range(1, scan.productArity())]
        plan = scan.copy(files.copy(index, *others, files.sparkSession()), *rest)
        return Classic(dataset_of(spark, plan), spark)
    except Py4JError:
        return frame


def _constructor(spark: SparkSession) -> Any:
    gateway = cast("Any", spark).sparkContext._gateway
    with _LOCK:
        if gateway not in _KNOWN:
            _KNOWN[gateway] = _compiled(spark)
        return _KNOWN[gateway]


def _compiled(spark: SparkSession) -> Any:
    edit = (SEQUENCE.format("immutable."), SEQUENCE.format("")) if is_scala_2_12(spark) else None
    try:
        loader = cooked(spark, KEPT, "the list of files", edit=edit).getClassLoader()
    except Unsupported:
        return None
    return loader.loadClass(f"{package(KEPT)}.{INDEX}").getConstructors()[0]


def _array(spark: SparkSession, values: list[Any]) -> Any:
    gateway = cast("Any", spark).sparkContext._gateway
    made = gateway.new_array(gateway.jvm.java.lang.Object, len(values))
    for number, value in enumerate(values):
        made[number] = value
    return made
