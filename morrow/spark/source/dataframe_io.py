"""``load`` and ``save`` of ``format("morrow")``, implemented by `morrow.spark.read` and `morrow.spark.write`.

A Python data source passes Spark rows from Python, gets no column selection, and cannot request a shuffle before a
write. So in a registered session these two methods of PySpark's reader and writer build the DataFrame, or run the job,
that `read` and `write` would: Spark's own scan with the columns and filters of the query, rows shuffled by partition
and bucket, compaction in the same job. The data source remains for all else: SQL (``USING morrow``), streams, and
writers with settings that `write` does not support.

Both ways accept the same options. This way has two advantages: a table can be written in the modes ``error`` and
``ignore``, and errors are Morrow's own, while Spark wraps the errors of a data source.

The settings of readers and writers are read from the objects behind them. In a classic session they are in the JVM, in
fields that are protected in Scala, which means public in Java. In Spark 3.5 they are private, but py4j can read them.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from morrow.engine.errors import AlreadyExists, InvalidArgument
from morrow.engine.options.declared.table import PARTITION
from morrow.engine.plan.time_travel import TravelArguments
from morrow.spark.reading.read import read, to_dataframe
from morrow.spark.sessions import is_connect
from morrow.spark.source.messages import NAME
from morrow.spark.source.options import Options
from morrow.spark.source.replaced_methods import Method, Replacement, is_ours
from morrow.spark.source.schemas import check_same, ensure_table, scan_of
from morrow.spark.source.settings import PATH, get_clock, parse_names, refuse_settings
from morrow.spark.versions import get_clustering, save_mode, to_list, to_mapping
from morrow.spark.writing.write import Mode, is_overwriting_dynamically, name_unknown_by_position, write
from morrow.writers.target import WRITE_OPTION_KEYS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OURS = f"format({NAME!r})"
ERROR, IGNORE, OVERWRITE = "errorifexists", "ignore", "overwrite"
"""Names of Spark's write modes, in lower case; ``error`` and ``default`` are synonyms of the first."""


@dataclass(frozen=True)
class Reading:
    """The settings of a reader; `schema` as JSON or DDL."""

    options: Mapping[str, str]
    schema: str | None


@dataclass(frozen=True)
class Writing:
    """The settings of a writer. `others`: whether there are further settings, which `write` does not support."""

    options: Mapping[str, str]
    mode: str
    partition_by: tuple[str, ...]
    others: bool


def _load(load: Method) -> Method:
    @functools.wraps(load)
    def loading(
        self: Any, path: Any = None, format: str | None = None, schema: Any = None, **options: Any
    ) -> DataFrame:
        asks = _CONNECT if is_connect(self) else _CLASSIC
        spark = asks.session_of_reader(self)
        if not is_ours(format or asks.reader_source(self), spark):
            return cast("DataFrame", load(self, path, format, schema, **options))
        # As at the beginning of `load`, so that the reader is in the expected state if `load` is called after all.
        if format is not None:
            self.format(format)
        if schema is not None:
            self.schema(schema)
        self.options(**options)
        given = asks.reading(self)
        located = _add_path(given.options, path)
        if located is None:
            return cast("DataFrame", load(self, path))
        if PATH in located:
            refuse_settings(spark, OURS, *parse_names(located[PATH]))
        return _read(located, given.schema, spark)

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
        asks = _CONNECT if is_connect(self) else _CLASSIC
        if not is_ours(format or asks.writer_source(self), self._spark):
            save(self, path, format, mode, partitionBy, **options)
            return
        self.mode(mode).options(**options)
        if partitionBy is not None:
            self.partitionBy(partitionBy)
        if format is not None:
            self.format(format)
        given = asks.writing(self)
        located = _add_path(given.options, path)
        if located is None or given.others:
            save(self, path)
            return
        if PATH in located:
            refuse_settings(self._spark, OURS, *parse_names(located[PATH]))
        save_rows(asks.frame(self), located, given)

    return saving


REPLACEMENTS: tuple[Replacement, ...] = (("DataFrameReader", "load", _load), ("DataFrameWriter", "save", _save))


def _add_path(options: Mapping[str, str], path: str | list[str] | None) -> dict[str, str] | None:
    """Return the options with the path.

    None if they already have a path: Spark has an error (and a setting) for that.
    """
    if path is None:
        return dict(options)
    if any(name.lower() in (PATH, "paths") for name in options):
        return None
    if isinstance(path, str):
        return {**options, PATH: path}
    paths = list(path)
    return {**options, PATH: paths[0]} if len(paths) == 1 else {**options, "paths": json.dumps(paths)}


def _read(options: Mapping[str, str], schema: str | None, spark: SparkSession) -> DataFrame:
    from pyspark.sql.types import StructType

    given = Options(options, get_clock(spark))
    asked, place = given.read(), given.place()
    at: TravelArguments = {**asked.travel, "branch": place.branch}
    if asked.table:
        frame = to_dataframe(scan_of(given), spark)
    else:
        frame = read(
            spark,
            place.path,
            asked.columns,
            asked.filter,
            storage_options=place.storage_options,
            verify=place.verify,
            **at,
        )
    if schema:
        said = StructType.fromJson(json.loads(schema)) if schema.startswith("{") else StructType.fromDDL(schema)
        check_same(cast("StructType", said), frame.schema)
    return frame


def save_rows(
    rows: DataFrame, options: dict[str, str], given: Writing, settings: Mapping[str, str] | None = None
) -> None:
    """Write rows in the mode of a writer to the table of the options; create the table if it does not exist.

    `settings`: further options for this write only, which a new table does not get.

    Raises `AlreadyExists`: the table exists, in a mode that requires a new table. Others: as `write`.
    """
    if given.partition_by:
        if any(name.lower() == PARTITION.key for name in options):
            raise InvalidArgument("partitionBy(...) and the option 'partition' say the same; give one of them")
        # The partition keys of a new table. An existing table has to have the same keys.
        options = {**options, PARTITION.key: ",".join(given.partition_by)}
    place = Options(options).place()
    sink = Options({**(settings or {}), **options}).sink(overwrite=given.mode == OVERWRITE)
    try:
        table = ensure_table(options, rows.schema, must_be_new=given.mode in (ERROR, IGNORE), heeds=True)
    except AlreadyExists:
        if given.mode == IGNORE:
            return
        raise
    if sink.kinds is None and sink.evolution is None:
        rows = name_unknown_by_position(rows, table.latest_schema())
    decides = given.mode == OVERWRITE and sink.replace_where is None
    mode: Mode = "overwrite" if given.mode == OVERWRITE else "append"
    write(
        rows,
        place.path,
        mode,
        dynamic=_is_dynamic(sink.dynamic_overwrite, rows.sparkSession) if decides else None,
        replace_where=sink.replace_where,
        kinds=sink.kinds,
        merge_schema=sink.evolution or False,
        options={key: value for key, value in sink.table.items() if key in WRITE_OPTION_KEYS},
        commit_user=sink.commit_user,
        commit_identifier=sink.commit_identifier,
        branch=place.branch,
        storage_options=place.storage_options,
    )


def _is_dynamic(said: bool | None, spark: SparkSession) -> bool:
    """Return whether an overwrite replaces only the partitions of its rows, by its option or the session's."""
    return bool(is_overwriting_dynamically(spark) if said is None else said)


# --- Settings of readers and writers ---


class _Classic:
    """Settings in a session with its own JVM."""

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
        others = (asked.numBuckets(), asked.sortColumnNames(), *get_clustering(asked))
        return Writing(
            options=self._mapping(writer, asked.extraOptions()),
            mode=save_mode(asked),
            partition_by=tuple(to_list(writer._spark, keys.get())) if keys.isDefined() else (),
            others=any(other.isDefined() for other in others),
        )

    def frame(self, writer: Any) -> Any:
        return writer._df

    def _mapping(self, face: Any, options: Any) -> dict[str, str]:
        # The map ignores case; the original map keeps it, which matters for column names.
        return to_mapping(face._spark, options.originalMap())


class _Connect:
    """Settings in a Spark Connect session, where readers and writers are plans in Python."""

    def session_of_reader(self, reader: Any) -> Any:
        return reader._client

    def reader_source(self, reader: Any) -> Any:
        return reader._format

    def reading(self, reader: Any) -> Reading:
        return Reading(_drop_missing(reader._options), reader._schema)

    def writer_source(self, writer: Any) -> Any:
        return writer._write.source

    def writing(self, writer: Any) -> Writing:
        asked = writer._write
        mode = (asked.mode or ERROR).lower()
        return Writing(
            options=_drop_missing(asked.options),
            mode=ERROR if mode in ("error", "default") else mode,
            partition_by=tuple(asked.partitioning_cols),
            others=asked.num_buckets > 0 or bool(asked.sort_cols) or bool(asked.clustering_cols),
        )

    def frame(self, writer: Any) -> DataFrame:
        from pyspark.sql.connect.dataframe import DataFrame

        return DataFrame(writer._df, writer._spark)


def _drop_missing(options: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in options.items() if value is not None}


_CLASSIC, _CONNECT = _Classic(), _Connect()
