"""``load`` and ``save`` of ``format("morrow")`` as `morrow.spark.read` and `morrow.spark.write` do them.

A data source in Python gives Spark rows from Python, is told no columns, and can ask for no shuffle before a write. So
where a session has registered the format, these two methods of PySpark's reader and writer build the DataFrame, or run
the job, that `read` and `write` would: Spark's own scan with the columns and filters of the query, rows shuffled by
partition and bucket, compaction in the same job. The data source remains for whatever does not go through them: SQL
(``USING morrow``), streams, and writers with settings that `write` has no name for.

Both ways take the same options. Two things differ, for the better here: a table may be written in the modes ``error``
and ``ignore``, and the errors are Morrow's own, where Spark wraps those of a data source.

The methods are replaced in PySpark's classes, for PySpark makes a reader and a writer anew each time and offers nothing
to derive from. What they were given is asked of the objects behind them; those of a classic session are in the JVM and
have it in fields that are protected in Scala, which means public in Java (the same names from Spark 4.0 to 4.3).
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from morrow.engine.errors import AlreadyExists, InvalidArgument, Unsupported
from morrow.engine.schema.creating import PARTITION_OPTION
from morrow.spark.reading import read
from morrow.spark.source.creating import ensure_table
from morrow.spark.source.options import NAME, Options
from morrow.spark.source.schemas import check_same
from morrow.spark.writing import Mode, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REGISTERED = "spark.morrow.registered"
"""The setting of a session that has registered the format. Like the registration, clones of a session have it too."""

REPLACED = "_morrow_replaced"
"""On a method that is one of these."""

ERROR, IGNORE, OVERWRITE = "errorifexists", "ignore", "overwrite"
"""Names of Spark's modes, in small letters; ``error`` and ``default`` are other names of the first."""

Method = Callable[..., Any]


@dataclass(frozen=True)
class Reading:
    """What a reader was given; `schema` as JSON or DDL."""

    options: Mapping[str, str]
    schema: str | None


@dataclass(frozen=True)
class Writing:
    """What a writer was given. `others`: settings besides, which nothing here has a name for."""

    options: Mapping[str, str]
    mode: str
    partition_by: tuple[str, ...]
    others: bool


def take_over(spark: SparkSession) -> None:
    """Have ``load`` and ``save`` of this session, for this format, done here."""
    spark.conf.set(REGISTERED, "true")
    module = sys.modules[type(spark.read).__module__]  # PySpark has one for each kind of session
    for owner, name, replaced in REPLACEMENTS:
        kind = getattr(module, owner)
        method = getattr(kind, name)
        if not hasattr(method, REPLACED):
            setattr(kind, name, replaced(method))


def _load(load: Method) -> Method:
    @functools.wraps(load)
    def loading(
        self: Any, path: Any = None, format: str | None = None, schema: Any = None, **options: Any
    ) -> DataFrame:
        asks = _CONNECT if _is_connect(self) else _CLASSIC
        spark = asks.session_of_reader(self)
        if not _is_ours(format or asks.reader_source(self), spark):
            return cast("DataFrame", load(self, path, format, schema, **options))
        # As `load` begins, which finds the reader as it would have left it if this falls through.
        if format is not None:
            self.format(format)
        if schema is not None:
            self.schema(schema)
        self.options(**options)
        given = asks.reading(self)
        located = _located(given.options, path)
        if located is None:
            return cast("DataFrame", load(self, path))
        return _read(located, given.schema, spark)

    setattr(loading, REPLACED, True)
    return loading


def _save(save: Method) -> Method:
    @functools.wraps(save)
    def saving(
        self: Any,
        path: str | None = None,
        format: str | None = None,
        mode: str | None = None,
        partitionBy: Any = None,  # noqa: N803 - Spark's name
        **options: Any,
    ) -> None:
        asks = _CONNECT if _is_connect(self) else _CLASSIC
        if not _is_ours(format or asks.writer_source(self), self._spark):
            save(self, path, format, mode, partitionBy, **options)
            return
        self.mode(mode).options(**options)
        if partitionBy is not None:
            self.partitionBy(partitionBy)
        if format is not None:
            self.format(format)
        given = asks.writing(self)
        located = _located(given.options, path)
        if located is None or given.others:
            save(self, path)
            return
        _write(asks.frame(self), located, given)

    setattr(saving, REPLACED, True)
    return saving


def _save_as_table(save: Method) -> Method:
    @functools.wraps(save)
    def saving(self: Any, name: str, format: str | None = None, *arguments: Any, **options: Any) -> None:
        asks = _CONNECT if _is_connect(self) else _CLASSIC
        if _is_ours(format or asks.writer_source(self), self._spark):
            # Spark would write the rows, and make a table of its catalog that it cannot read.
            raise Unsupported(
                "saveAsTable with format('morrow'): Spark's catalog does not keep where the table is",
                hint=f"use .save(path), and for SQL CREATE TEMPORARY VIEW {name} USING morrow OPTIONS (path '...')",
            )
        save(self, name, format, *arguments, **options)

    setattr(saving, REPLACED, True)
    return saving


REPLACEMENTS = (
    ("DataFrameReader", "load", _load),
    ("DataFrameWriter", "save", _save),
    ("DataFrameWriter", "saveAsTable", _save_as_table),
)


def _is_ours(source: str | None, spark: SparkSession) -> bool:
    return source is not None and source.lower() == NAME and spark.conf.get(REGISTERED, None) == "true"


def _is_connect(face: Any) -> bool:
    return ".connect." in type(face).__module__


def _located(options: Mapping[str, str], path: str | list[str] | None) -> dict[str, str] | None:
    """The options with the path. None where they have one too, which Spark has an error (and a setting) for."""
    if path is None:
        return dict(options)
    if any(name.lower() in ("path", "paths") for name in options):
        return None
    if isinstance(path, str):
        return {**options, "path": path}
    paths = list(path)
    return {**options, "path": paths[0]} if len(paths) == 1 else {**options, "paths": json.dumps(paths)}


def _read(options: Mapping[str, str], schema: str | None, spark: SparkSession) -> DataFrame:
    from pyspark.sql.types import StructType

    given = Options(options)
    asked, place = given.read(), given.place()
    frame = read(
        spark,
        place.path,
        asked.columns,
        asked.filter,
        branch=place.branch,
        storage_options=place.storage_options,
        **asked.travel,
    )
    if schema:
        said = StructType.fromJson(json.loads(schema)) if schema.startswith("{") else StructType.fromDDL(schema)
        check_same(cast("StructType", said), frame.schema)
    return frame


def _write(rows: DataFrame, options: dict[str, str], given: Writing) -> None:
    if given.partition_by:
        if any(name.lower() == PARTITION_OPTION for name in options):
            raise InvalidArgument("partitionBy(...) and the option 'partition' say the same; give one of them")
        # The keys of a new table; those of one that is there have to be the same.
        options = {**options, PARTITION_OPTION: ",".join(given.partition_by)}
    asked = Options(options)
    sink, place = asked.sink(), asked.place()
    try:
        ensure_table(options, rows.schema, must_be_new=given.mode in (ERROR, IGNORE))
    except AlreadyExists:
        if given.mode == IGNORE:
            return
        raise
    mode: Mode = "overwrite" if given.mode == OVERWRITE else "append"
    write(
        rows,
        place.path,
        mode,
        dynamic=sink.dynamic_overwrite if mode == "overwrite" else None,
        kinds=sink.kinds,
        commit_user=sink.commit_user,
        commit_identifier=sink.commit_identifier,
        branch=place.branch,
        storage_options=place.storage_options,
    )


# --- What readers and writers were given ---


class _Classic:
    """Of a session that has its own JVM."""

    def session_of_reader(self, reader: Any) -> Any:
        return reader._spark

    def reader_source(self, reader: Any) -> Any:
        return reader._jreader.source()

    def reading(self, reader: Any) -> Reading:
        schema = reader._jreader.userSpecifiedSchema()
        options = self._mapping(reader, reader._jreader.extraOptions())
        return Reading(options, schema.get().json() if schema.isDefined() else None)

    def writer_source(self, writer: Any) -> Any:
        return writer._jwrite.source()

    def writing(self, writer: Any) -> Writing:
        asked = writer._jwrite
        keys = asked.partitioningColumns()
        others = (asked.numBuckets(), asked.sortColumnNames(), asked.clusteringColumns())
        return Writing(
            options=self._mapping(writer, asked.extraOptions()),
            mode=asked.curmode().toString().lower(),
            partition_by=tuple(self._converters(writer).asJava(keys.get())) if keys.isDefined() else (),
            others=any(other.isDefined() for other in others),
        )

    def frame(self, writer: Any) -> Any:
        return writer._df

    def _mapping(self, face: Any, options: Any) -> dict[str, str]:
        # The map is one that knows no case; the original still has it, which matters where columns are named.
        return dict(self._converters(face).asJava(options.originalMap()))

    def _converters(self, face: Any) -> Any:
        return face._spark._jvm.scala.jdk.javaapi.CollectionConverters


class _Connect:
    """Of a session on a server elsewhere; readers and writers are plans in Python."""

    def session_of_reader(self, reader: Any) -> Any:
        return reader._client

    def reader_source(self, reader: Any) -> Any:
        return reader._format

    def reading(self, reader: Any) -> Reading:
        return Reading(_given(reader._options), reader._schema)

    def writer_source(self, writer: Any) -> Any:
        return writer._write.source

    def writing(self, writer: Any) -> Writing:
        asked = writer._write
        mode = (asked.mode or ERROR).lower()
        return Writing(
            options=_given(asked.options),
            mode=ERROR if mode in ("error", "default") else mode,
            partition_by=tuple(asked.partitioning_cols),
            others=asked.num_buckets > 0 or bool(asked.sort_cols) or bool(asked.clustering_cols),
        )

    def frame(self, writer: Any) -> DataFrame:
        from pyspark.sql.connect.dataframe import DataFrame

        return DataFrame(writer._df, writer._spark)


def _given(options: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in options.items() if value is not None}


_CLASSIC, _CONNECT = _Classic(), _Connect()
