"""COPY INTO in Spark: the executors read and write the files; `morrow.statements.copy_into` has the rules.

One job counts the rows and errors of all files, and another writes the good rows. The rows are cached in between, so
that both see the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

from pyspark.sql import Observation
from pyspark.sql.types import StringType, StructField, StructType

from morrow.engine.errors import InvalidArgument
from morrow.engine.format import types as t
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.names import FILE, reserve_name
from morrow.spark.catalogs.options import parse_sink
from morrow.spark.catalogs.questions import Place
from morrow.spark.expressions import quote_name
from morrow.spark.source.settings import PREFIX
from morrow.spark.types import to_spark_type
from morrow.spark.writing.job import Commit
from morrow.spark.writing.job import write as write_job
from morrow.spark.writing.write import is_case_sensitive
from morrow.statements import copy_into as rules
from morrow.statements.copy_into import LOCAL, is_hidden
from morrow.statements.copy_parser import (
    COMPRESSION,
    CSV,
    DATE_FORMAT,
    EMPTY_FIELD_AS_NULL,
    ESCAPE,
    FIELD_DELIMITER,
    HEADER,
    JSON,
    MULTI_LINE,
    NULL_IF,
    QUOTE,
    SKIP_HEADER,
    TIMESTAMP_FORMAT,
    is_true,
)
from morrow.statements.statement import CopyFormat, CopyInto, CopyIntoLocation
from morrow.writers.commit.premise import Premise
from morrow.writers.history.load_history import SourceFile, Tally, describe_cast_error
from morrow.writers.target import WriteTarget, override_options

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

SPARK_OPTIONS: Mapping[str, str] = {
    FIELD_DELIMITER: "sep",
    QUOTE: "quote",
    ESCAPE: "escape",
    COMPRESSION: "compression",
    HEADER: "header",
    MULTI_LINE: "multiLine",
    DATE_FORMAT: "dateFormat",
    TIMESTAMP_FORMAT: "timestampFormat",
}
"""Options of Paimon -> options of Spark's readers and writers."""


REPORT = (
    "file_name STRING NOT NULL, status STRING NOT NULL, rows_loaded BIGINT NOT NULL, rows_parsed BIGINT NOT NULL, "
    "errors_seen BIGINT NOT NULL, first_error STRING"
)
WRITTEN = "output_path STRING NOT NULL, file_count INT NOT NULL, rows_written BIGINT NOT NULL"
ERROR, RECORD = reserve_name("error"), reserve_name("record")
"""The error of a row, null for good rows, and the text of a record that does not parse."""
MARK = "\0"
TEXTS = (t.CharType, t.VarCharType)
BYTES = (t.BinaryType, t.VarBinaryType)


def copy_into(place: Place, name: str, statement: CopyInto) -> DataFrame:
    """Load files into a table, each once, and return a row for each file."""
    table, spark = place.table(name), place.spark
    fields = rules.find_fields(table._newest, statement)
    rows = _Rows(spark, statement.format, fields)

    def write(files: Sequence[SourceFile], properties: Mapping[str, str], premise: Premise) -> Snapshot | None:
        sink = parse_sink(place, {"table": name, "settings": _list_settings(spark), "options": {}}, overwrite=False)
        target = override_options(WriteTarget.of(table._metadata), sink.table)
        return write_job(rows.of(files), target, None, Commit(properties=properties, premise=premise))

    try:
        reports = rules.load_files(table, statement, lambda: list_files(spark, statement.source), rows.count, write)
    finally:
        rows.close()
    return spark.createDataFrame(reports, REPORT)


def _list_settings(spark: SparkSession) -> dict[str, str]:
    """Return the settings of Paimon's options, without their prefix."""
    rows = spark.sql("SET").collect()
    return {row[0].removeprefix(PREFIX): row[1] for row in rows if row[0].startswith(PREFIX)}


class _Rows:
    """The rows of files: their values cast to columns (v0, v1, ...), the name of their file, and their error."""

    def __init__(self, spark: SparkSession, format: CopyFormat, fields: Sequence[t.DataField]) -> None:
        self._spark, self._format, self._fields = spark, format, fields
        self._frame: DataFrame | None = None
        self._names: dict[str, str] = {}

    def count(self, files: Sequence[SourceFile]) -> dict[str, Tally]:
        """Read the files, and return the tally of each by its path."""
        from pyspark.sql import functions as f

        self.close()
        self._frame = self._cast(self._read([file.path for file in files])).cache()
        of_file = self._frame.groupBy(FILE).agg(f.count(f.lit(1)), f.count(ERROR), f.first(ERROR, ignorenulls=True))
        paths = {file.base: file.path for file in files}
        found = of_file.collect()  # with the names of files as in URLs
        self._names = {paths[unquote(row[0])]: row[0] for row in found}
        return {paths[unquote(name)]: Tally(*tally) for name, *tally in found}

    def of(self, files: Sequence[SourceFile]) -> DataFrame:
        """Return the good rows of files, in the types of the columns."""
        from pyspark.sql import functions as f

        assert self._frame is not None  # the files are counted first
        good = self._frame.where(f.col(ERROR).isNull() & f.col(FILE).isin([self._names[file.path] for file in files]))
        return good.select(*(f.col(f"v{at}").alias(each.name) for at, each in enumerate(self._fields)))

    def close(self) -> None:
        """Release the cached rows."""
        if self._frame is not None:
            self._frame.unpersist()
            self._frame = None

    def _read(self, paths: list[str]) -> DataFrame:
        """Return the columns c0, c1, ... of the files, with the text of records that do not parse."""
        from pyspark.sql import functions as f

        options = {SPARK_OPTIONS[key]: value[0] for key, value in self._format.options.items() if key in SPARK_OPTIONS}
        reader = self._spark.read.options(**options).option("__globPaths__", "false")
        file = f.col("_metadata.file_name").alias(FILE)
        if self._format.type not in (CSV, JSON):
            rows = reader.option("mergeSchema", "true").parquet(*paths)
            return rows.select(*self._match_columns(rows), f.lit(None).cast("string").alias(RECORD), file)
        names = [f"c{at}" for at in range(len(self._fields))]
        read = names if self._format.type == CSV else [field.name for field in self._fields]
        schema = StructType([StructField(name, StringType()) for name in (*read, RECORD)])
        reader = reader.schema(schema).options(mode="PERMISSIVE", columnNameOfCorruptRecord=RECORD)
        if self._format.type == CSV:
            rows = reader.option("header", str(is_true(self._format, SKIP_HEADER)).lower()).csv(paths)
        else:
            rows = reader.json(paths)
        cells = (self._clear(f.col(quote_name(old))).alias(new) for old, new in zip(read, names, strict=True))
        return rows.select(*cells, RECORD, file)

    def _match_columns(self, rows: DataFrame) -> list[Column]:
        """Return the columns of Parquet files, found by name; others are null."""
        from pyspark.sql import functions as f

        fold = str if is_case_sensitive(self._spark) else str.casefold
        there = {fold(name): name for name in reversed(rows.columns)}
        found = [there.get(fold(field.name)) for field in self._fields]
        return [
            (f.lit(None) if name is None else f.col(quote_name(name))).alias(f"c{at}") for at, name in enumerate(found)
        ]

    def _clear(self, column: Column) -> Column:
        """Replace the texts that mean null."""
        from pyspark.sql import functions as f

        empty = [""] if is_true(self._format, EMPTY_FIELD_AS_NULL) else []
        nulls = [*self._format.options.get(NULL_IF, ()), *empty]
        return f.when(column.isin(nulls), None).otherwise(column) if nulls else column

    def _cast(self, rows: DataFrame) -> DataFrame:
        """Add the values cast to the columns, and the first error of each row."""
        from pyspark.sql import functions as f

        error = f.when(f.col(RECORD).isNotNull(), f.concat(f.lit("Malformed record: "), f.col(RECORD)))
        values = []
        for at, field in enumerate(self._fields):
            values.append(f.expr(self._build_cast(f"c{at}", field, rows.schema[f"c{at}"].dataType)).alias(f"v{at}"))
        cast = rows.select("*", *values)
        for at, field in enumerate(self._fields):
            before, after = describe_cast_error(field, MARK).split(MARK)
            said = f.concat(f.lit(before), f.expr(f"CAST(c{at} AS STRING)"), f.lit(after))
            error = error.when(f.col(f"c{at}").isNotNull() & f.col(f"v{at}").isNull(), said)
        return cast.select(*(f"v{at}" for at in range(len(self._fields))), FILE, error.alias(ERROR))

    def _build_cast(self, value: str, field: t.DataField, given: Any) -> str:
        """Return SQL for a value in the type of a column, null if it cannot be cast."""
        kind = to_spark_type(field.type, field.name)
        if (isinstance(field.type, TEXTS) and isinstance(given, StringType)) or given == kind:
            return value
        if isinstance(field.type, BYTES) and isinstance(given, StringType):
            return f"CAST({value} AS BINARY)"
        return f"TRY_CAST({value} AS {kind.simpleString()})"


def list_files(spark: SparkSession, source: str) -> list[SourceFile]:
    """List the files of a folder, without folders in it, or one file. Raises `InvalidArgument` if it is missing."""
    session = cast("Any", spark)
    path = session._jvm.org.apache.hadoop.fs.Path(source)
    system = path.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
    path = system.makeQualified(path)
    if system.getScheme() == LOCAL.removesuffix(":"):
        return rules.list_local(path.toUri().getPath())
    if not system.exists(path):
        raise InvalidArgument(f"{source}: there is no such file or folder")
    found = []
    for status in system.listStatus(path):
        name = status.getPath().toString()
        if status.isFile() and not is_hidden(status.getPath().getName()):
            size, millis = status.getLen(), status.getModificationTime()
            found.append(SourceFile(name, size, millis, name, f"{size} {millis}"))
    return sorted(found, key=lambda file: file.path)


def copy_into_location(place: Place, _name: str, statement: CopyIntoLocation) -> DataFrame:
    """Write the rows of a table or query to files of a folder, and return the number of files and rows."""
    from pyspark.sql import functions as f

    spark, format = place.spark, statement.format
    rules.check_export(statement.target, statement.overwrite)
    rows = (
        spark.table(".".join(map(quote_name, statement.table)))
        if statement.query is None
        else spark.sql(statement.query)
    )
    counted = Observation()
    options = {SPARK_OPTIONS[key]: value[0] for key, value in format.options.items()}
    writer = rows.observe(counted, f.count(f.lit(1)).alias("rows")).write.options(**options)
    mode = "overwrite" if statement.overwrite else "error"
    writer.format(format.type.lower()).mode(mode).save(statement.target)
    files = [file for file in list_files(spark, statement.target) if file.base.startswith("part-")]
    return spark.createDataFrame([(statement.target, len(files), counted.get.get("rows", 0))], WRITTEN)
