"""Replaced methods of PySpark's classes for sessions that have registered the format, and refusals of streams.

They are replaced in the classes, since PySpark creates a new reader or writer each time and does not support
subclasses. Sessions that have not registered the format, and other formats, get the original methods.
Streams are refused if this version of Spark lacks streams of Python data sources: Spark would look for a Java class
of this name, or fail in the first batch with a long stack trace. Streams also refuse settings that no JVM reads.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from morrow.engine.errors import Unsupported
from morrow.spark.sessions import is_connect
from morrow.spark.source.messages import ALIAS, NAME
from morrow.spark.source.settings import PATH, parse_names, refuse_settings
from morrow.spark.versions import HAS_SOURCES, WRITES_STREAMS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Method: TypeAlias = Callable[..., Any]
Replacement: TypeAlias = tuple[str, str, Callable[[Method], Method]]
"""A PySpark class, as a key of `_find_owners`, the name of a method, and the function that wraps the method."""

REGISTERED = "spark.morrow.registered"
"""The setting that marks a session with the format registered. Clones of a session inherit setting and registration."""

HAS_ALIAS = "spark.morrow.registered.paimon"
"""The setting that marks a session in which the format also has its other name."""

CATALOGS, SPARKS_CATALOG = "spark.sql.catalog.", "spark_catalog"
"""The prefix of settings that name catalog classes, and the name of Spark's own catalog."""

PART = re.compile(r"`((?:[^`]|``)*)`|([^\s.`]+)")
"""A pattern of the parts of a name."""

DEFAULT_SOURCE = "spark.sql.sources.default"
"""The setting with Spark's default format."""

REPLACED = "_morrow_replaced"
"""The attribute that marks a replaced method."""


def take_over(spark: SparkSession, replacements: Iterable[Replacement]) -> None:
    """Replace these methods for this session; repeating it changes nothing."""
    spark.conf.set(REGISTERED, "true")
    owners = _find_owners(spark)
    for owner, name, replaced in replacements:
        kind = owners[owner]
        method = getattr(kind, name)
        if not hasattr(method, REPLACED):
            made = replaced(method)
            setattr(made, REPLACED, True)
            setattr(kind, name, made)


def _find_owners(spark: SparkSession) -> dict[str, type]:
    """Return PySpark's reader and writer classes for this kind of session."""
    module = sys.modules[type(spark.read).__module__]
    streams = sys.modules[type(spark.readStream).__module__]
    return {
        "DataFrameReader": module.DataFrameReader,
        "DataFrameWriter": module.DataFrameWriter,
        "DataFrameWriterV2": module.DataFrameWriterV2,
        "DataStreamReader": streams.DataStreamReader,
        "DataStreamWriter": streams.DataStreamWriter,
        "SparkSession": type(spark),
        "Catalog": type(spark.catalog),
    }


def is_registered(spark: SparkSession) -> bool:
    return spark.conf.get(REGISTERED, None) == "true"


def is_ours(source: str | None, spark: SparkSession) -> bool:
    """Return whether the session has registered the format and `source` names it."""
    return source is not None and is_registered(spark) and source.lower() in list_names(spark)


def list_names(spark: SparkSession) -> tuple[str, ...]:
    """Return the names of the format in a session that has registered it."""
    return (NAME, ALIAS) if spark.conf.get(HAS_ALIAS, None) == "true" else (NAME,)


def is_of_other_catalog(name: str, spark: SparkSession) -> bool:
    """Return whether a table of this name, as SQL writes it, is in a catalog other than Spark's own."""
    parts = [quoted.replace("``", "`") or plain for quoted, plain in PART.findall(name)]
    if len(parts) > 1 and parts[0].lower() == SPARKS_CATALOG:
        return False
    if len(parts) > 1 and spark.conf.get(f"{CATALOGS}{parts[0]}", None) is not None:
        return True
    return spark.catalog.currentCatalog() != SPARKS_CATALOG


def is_ours_or_default(source: str | None, spark: SparkSession) -> bool:
    """Return as `is_ours`; without a name, check the session's default format."""
    return is_ours(source or spark.conf.get(DEFAULT_SOURCE, None), spark)


def make_refusal(call: str, name: str = "orders") -> Unsupported:
    """Return the error for a call that would create a table."""
    return Unsupported(
        f"{call} with format('morrow')",
        hint="Spark's catalog does not tell the format where its tables are: write by "
        ".write.format('morrow').save(path), and for SQL use morrow.spark.attach or "
        f"CREATE TEMPORARY VIEW {name} USING morrow OPTIONS (path '...')",
    )


def note_format(method: Method) -> Method:
    """Keep the name of the format, which the JVM's readers and writers do not expose."""

    @functools.wraps(method)
    def named(self: Any, source: str) -> Any:
        found = method(self, source)
        found._morrow_source = source
        return found

    return named


def _refuse_load(load: Method) -> Method:
    @functools.wraps(load)
    def loading(self: Any, path: Any = None, format: str | None = None, *arguments: Any, **options: Any) -> Any:
        if is_ours(format or getattr(self, "_morrow_source", None), self._client if is_connect(self) else self._spark):
            raise Unsupported(
                "streams from format('morrow') before Spark 4.0",
                hint="read the table as a batch, by morrow.spark.read(spark, path)",
            )
        return load(self, path, format, *arguments, **options)

    return loading


def _refuse_start(start: Method) -> Method:
    @functools.wraps(start)
    def starting(self: Any, path: str | None = None, format: str | None = None, *arguments: Any, **options: Any) -> Any:
        if is_ours(format or getattr(self, "_morrow_source", None), self._session if is_connect(self) else self._spark):
            raise Unsupported(
                "streams into format('morrow') before Spark 4.1",
                hint="use writeStream.foreachBatch(morrow.spark.sink(...))",
            )
        return start(self, path, format, *arguments, **options)

    return starting


def list_replacements() -> tuple[Replacement, ...]:
    """Return the methods to be replaced in this version."""
    reads: tuple[Replacement, ...] = (
        ("DataStreamReader", "format", note_format),
        ("DataStreamReader", "load", _refuse_load),
    )
    writes: tuple[Replacement, ...] = (("DataStreamWriter", "start", _refuse_start),)
    return (*(() if HAS_SOURCES else reads), *(() if WRITES_STREAMS else writes))


OURS = f"a stream of format({NAME!r})"


def _refuse(spark: SparkSession, path: object) -> None:
    """Raise as `refuse_settings`. If the path is missing, the format itself raises the error."""
    if isinstance(path, str):
        refuse_settings(spark, OURS, *parse_names(path))


def _note_argument(method: Method, name: str) -> Method:
    """Return a method of a stream reader that stores its argument, since the JVM's reader does not expose it."""

    @functools.wraps(method)
    def noted(self: Any, *arguments: Any, **options: Any) -> Any:
        reader = method(self, *arguments, **options)
        if name == "format":
            reader._morrow_source = arguments[0] if arguments else options["source"]
        else:
            given = dict([arguments]) if name == "option" and arguments else options
            reader._morrow_path = given.get(PATH, getattr(reader, "_morrow_path", None))
        return reader

    return noted


def _check_load(load: Method) -> Method:
    @functools.wraps(load)
    def loading(self: Any, path: Any = None, format: str | None = None, schema: Any = None, **options: Any) -> Any:
        spark = self._client if is_connect(self) else self._spark
        if is_ours(format or getattr(self, "_morrow_source", None), spark):
            _refuse(spark, path or options.get(PATH) or getattr(self, "_morrow_path", None))
        return load(self, path, format, schema, **options)

    return loading


def _check_start(start: Method) -> Method:
    @functools.wraps(start)
    def starting(self: Any, path: str | None = None, format: str | None = None, *arguments: Any, **options: Any) -> Any:
        spark = self._session if is_connect(self) else self._spark
        if is_ours(format or getattr(self, "_morrow_source", None), spark):
            _refuse(spark, path or options.get(PATH) or getattr(self, "_morrow_path", None))
        return start(self, path, format, *arguments, **options)

    return starting


STREAM_REPLACEMENTS: tuple[Replacement, ...] = (
    *(
        (owner, name, functools.partial(_note_argument, name=name))
        for owner in ("DataStreamReader", "DataStreamWriter")
        for name in ("option", "options")
    ),
    ("DataStreamReader", "format", functools.partial(_note_argument, name="format")),
    ("DataStreamReader", "load", _check_load),
    ("DataStreamWriter", "start", _check_start),
)
