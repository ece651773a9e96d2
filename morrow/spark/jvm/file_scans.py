"""Spark's own scan of files that Morrow lists, with masks as a filter, and the file index of scans by name.

The first read compiles the classes, which stay in the driver: plans sent to executors hold only Spark's classes.
``REFRESH TABLE`` on a view makes Spark list the files of its scans again, and files that are gone are left out
without an error. The file index of `keep_files` still lists them, so that reading them fails.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from weakref import WeakKeyDictionary

from morrow.engine.errors import Unsupported
from morrow.spark.jvm.classes import PACKAGE, SCANS, compile_folder, find_root_message, get_package
from morrow.spark.versions import is_scala_2_12, make_dataset

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CALLS = "Calls"
"""The name of the Java class with the entry points."""

NO_JVM = "a client of Spark Connect reaches no JVM"

TRIAL = (
    '{"stored":"{\\"type\\":\\"struct\\",\\"fields\\":[]}","constants":"{\\"type\\":\\"struct\\",\\"fields\\":[]}",'
    '"partitions":[],"paths":[],"folder":"file:/","first":"first","unmasked":true,"columns":["first"],"options":{}}'
)
"""A scan without files, planned to test whether this version of Spark accepts the classes."""

Rows: TypeAlias = "Callable[[tuple[int, ...], list[Any]], DataFrame]"
"""A function from column numbers, and filters as `Values.java` sends them, to rows. It may ignore filters."""

MAX_ANSWERS = 16
"""The maximum answers to keep for a DataFrame: Spark asks again when it plans a query in stages."""


class _RowsFunction:
    """A ``java.util.function.Function`` for `TaskRows`: from a request (JSON) to a Dataset."""

    class Java:
        implements = ("java.util.function.Function",)

    def __init__(self, rows: Rows) -> None:
        @lru_cache(MAX_ANSWERS)
        def answer(asked: str) -> DataFrame:
            question = json.loads(asked)
            return rows(tuple(question["columns"]), question["filters"])

        self._answer = answer

    def apply(self, asked: str) -> Any:
        return cast("Any", self._answer(asked))._jdf

    def toString(self) -> str:  # noqa: N802 - Java's name
        return "rows of tasks"


@dataclass(frozen=True)
class Scanning:
    """The abilities of a session: to scan files that Morrow lists or, because of `obstacle`, files that Spark finds."""

    calls: Any = None
    obstacle: str | None = None

    def frame(self, spark: SparkSession, described: str, numbers: bytes, masks: bytes, *, spread: bool) -> DataFrame:
        """Return the live rows of the files that `described` names in the format of the Java classes.

        Args:
            spark: the session.
            described: the scan as JSON.
            numbers: three 64-bit numbers a file: its size, the row of its partition, and its first bit (-1: no mask).
            masks: the bits of all masks, in words of 64; empty if no file has a mask.
            spread: broadcast the masks instead of sending them with each task.
        """
        given = described, bytearray(numbers), bytearray(masks), spread
        return _make_frame(self.calls.scan(_get_session(spark), *given), spark)

    def reaches(self, spark: SparkSession, url: str, size: int) -> str | None:
        """Return why Spark does not find a file of this size at a URL; None if it does."""
        return cast("str | None", self.calls.obstacle(_get_session(spark), url, size))

    def rows(self, spark: SparkSession, schema: str, size: int, title: str, rows: Rows) -> DataFrame:
        """Return a DataFrame that requests its rows when Spark plans a query, limited to the columns and rows needed.

        Args:
            spark: the session.
            schema: the schema of all columns, as JSON.
            size: the estimated size of all rows in bytes, for planning joins.
            title: the name of the rows in plans.
            rows: the function from column numbers and filters to rows.
        """
        from pyspark import java_gateway

        cast("Any", java_gateway).ensure_callback_server_started(cast("Any", spark).sparkContext._gateway)
        return _make_frame(self.calls.rows(_get_session(spark), schema, size, title, _RowsFunction(rows)), spark)

    def given(self, spark: SparkSession, file: str, schema: str) -> DataFrame | None:
        """Return the rows of a file in Arrow's stream format. The driver's JVM holds them from then on.

        `schema`: Spark's schema as JSON. Returns None if session settings make types wider than in `to_travel_schema`.
        """
        made = self.calls.given(_get_session(spark), file, schema)
        return None if made is None else _make_frame(made, spark)

    def named(self, frame: DataFrame, name: str) -> DataFrame:
        """Return the same rows in a projection with an alias."""
        spark = frame.sparkSession
        return _make_frame(self.calls.named(_get_session(spark), cast("Any", frame)._jdf, name), spark)


def _get_session(spark: SparkSession) -> Any:
    return cast("Any", spark)._jsparkSession


def _make_frame(made: Any, spark: SparkSession) -> DataFrame:
    from pyspark.sql import DataFrame

    return DataFrame(made, spark)


_SCANNINGS: WeakKeyDictionary[Any, Scanning] = WeakKeyDictionary()
"""The abilities of sessions, by the gateway to their JVM."""
_LOCK = Lock()


def get_scanning(spark: SparkSession) -> Scanning:
    """Return the abilities of a session. The first call in a JVM compiles the classes and tries them."""
    if not hasattr(spark, "_jsparkSession"):
        return Scanning(obstacle=NO_JVM)
    gateway = cast("Any", spark).sparkContext._gateway
    with _LOCK:
        known = _SCANNINGS.get(gateway)
        if known is None:
            known = _SCANNINGS[gateway] = _try_scanning(spark)
    return known


def _try_scanning(spark: SparkSession) -> Scanning:
    from py4j.protocol import Py4JError, Py4JJavaError

    try:
        compiler = compile_folder(spark, SCANS, f"the scan of named files in Spark {spark.version}")
        made = Scanning(_make_calls(compiler, spark))
        tried = made.frame(spark, TRIAL, b"", bytes(8), spread=False)
        cast("Any", tried)._jdf.queryExecution().executedPlan()
    except Unsupported as error:
        return Scanning(obstacle=str(error))
    except Py4JJavaError as error:
        return Scanning(obstacle=f"Spark {spark.version} does not plan it ({find_root_message(error.java_exception)})")
    except Py4JError as error:
        return Scanning(obstacle=f"Spark {spark.version} does not have it ({error})")
    return made


def _make_calls(compiler: Any, spark: SparkSession) -> Any:
    """Create the Java object with the entry points."""
    found = compiler.getClassLoader().loadClass(f"{get_package(SCANS)}.{CALLS}")
    nothing = cast("Any", spark).sparkContext._gateway.new_array(cast("Any", spark)._jvm.java.lang.Object, 0)
    return found.getConstructors()[0].newInstance(nothing)


INDEX_FOLDER = f"{PACKAGE}.kept"
"""The folder of the Java sources."""
INDEX = "KeptFiles"
SEQUENCE = "scala.collection.{}Seq"
"""Scala's sequence class in Spark's interfaces; in Scala 2.12 it is not only the immutable one."""

_CONSTRUCTORS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""The constructor of the file index, or None, by the gateway to a JVM."""
_CONSTRUCTORS_LOCK = Lock()


def keep_files(frame: DataFrame, spark: SparkSession) -> DataFrame:
    """Return the same scan of files with a file list that no refresh changes.

    Returns `frame` if the JVM cannot be reached, or its Spark rejects the class.
    """
    from py4j.protocol import Py4JError
    from pyspark.sql import DataFrame as Classic

    make = _find_constructor(spark) if hasattr(spark, "_jsparkSession") else None
    if make is None:
        return frame
    try:
        scan = cast("Any", frame)._jdf.queryExecution().analyzed()
        files = scan.relation()
        index = make.newInstance(_make_array(spark, [files.location()]))
        others = (files.partitionSchema(), files.dataSchema(), files.bucketSpec(), files.fileFormat(), files.options())
        rest = [scan.productElement(number) for number in range(1, scan.productArity())]
        plan = scan.copy(files.copy(index, *others, files.sparkSession()), *rest)
        return Classic(make_dataset(spark, plan), spark)
    except Py4JError:
        return frame


def _find_constructor(spark: SparkSession) -> Any:
    gateway = cast("Any", spark).sparkContext._gateway
    with _CONSTRUCTORS_LOCK:
        if gateway not in _CONSTRUCTORS:
            _CONSTRUCTORS[gateway] = _compile_index(spark)
        return _CONSTRUCTORS[gateway]


def _compile_index(spark: SparkSession) -> Any:
    edit = (SEQUENCE.format("immutable."), SEQUENCE.format("")) if is_scala_2_12(spark) else None
    try:
        loader = compile_folder(spark, INDEX_FOLDER, "the list of files", edit=edit).getClassLoader()
    except Unsupported:
        return None
    return loader.loadClass(f"{get_package(INDEX_FOLDER)}.{INDEX}").getConstructors()[0]


def _make_array(spark: SparkSession, values: list[Any]) -> Any:
    gateway = cast("Any", spark).sparkContext._gateway
    made = gateway.new_array(gateway.jvm.java.lang.Object, len(values))
    for number, value in enumerate(values):
        made[number] = value
    return made
