"""Statements of Paimon that the driver runs: tags, CREATE TABLE LIKE, ANALYZE TABLE, CALL of procedures, COPY INTO.

For COPY INTO the executors read and write the files; `morrow.statements.copy_into` has the rules.

One job counts the rows and errors of all files, and another writes the good rows. The rows are cached in between, so
that both see the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

from pyspark.sql import Observation
from pyspark.sql.types import StringType, StructField, StructType

from morrow.engine.errors import AlreadyExists, InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.names import FILE, reserve_name
from morrow.engine.options.declarations import parse_names
from morrow.engine.options.declared.files import FILE_FORMAT
from morrow.engine.options.declared.table import PATH, TYPE
from morrow.procedures.procedure import Kind
from morrow.procedures.registry import PROCEDURES, find_procedure
from morrow.scans.arguments import check_columns
from morrow.spark.catalogs import syntax
from morrow.spark.catalogs.ddl import IGNORED, PROVIDERS, check_database
from morrow.spark.catalogs.functions import create_function, describe_function, drop_function
from morrow.spark.catalogs.options import parse_sink
from morrow.spark.catalogs.questions import Place, Question, build_full_name
from morrow.spark.catalogs.reads import find_folder
from morrow.spark.catalogs.syntax import resolve_name, unpack_statement
from morrow.spark.catalogs.view_statements import alter_view, create_view, drop_view, show_views
from morrow.spark.expressions import parse_value, quote_name
from morrow.spark.maintenance.commands import analyze_by_job
from morrow.spark.procedures import call
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
from morrow.statements.ddl import check_statement
from morrow.statements.statement import (
    AlterView,
    Analyze,
    AnalyzeTables,
    CopyFormat,
    CopyInto,
    CopyIntoLocation,
    CreateFunction,
    CreateTableLike,
    CreateTag,
    CreateView,
    DeleteTags,
    DescribeFunction,
    DropFunction,
    DropView,
    RenameTag,
    RepairTable,
    Show,
    Statement,
)
from morrow.tables.format_table import FormatTable
from morrow.writers.commit.premise import Premise
from morrow.writers.history.load_history import SourceFile, Tally, describe_cast_error
from morrow.writers.operations.format_table import analyze_partitions, repair_partitions
from morrow.writers.target import WriteTarget, override_options

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from morrow.engine.format.schema import TableSchema

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
"""Options of Paimon -> options of readers and writers in Spark."""


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
    """Return the session's settings for Paimon options, without their prefix."""
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


def run(place: Place, packed: str) -> DataFrame:
    """Execute a packed statement and return its rows. Raises `TableNotFound`, and as `run_statement`."""
    return run_statement(place, *unpack_statement(packed))


def run_statement(place: Place, statement: Statement, name: str) -> DataFrame:
    """Execute a statement on a table or database and return its rows.

    Raises as the methods of `Table.tags` and `Catalog.create_table`.
    """
    if isinstance(statement, Show) and statement.what == "views":
        return show_views(place, name, statement)
    if isinstance(statement, Show):
        tags = sorted(place.table(name).tags.names)
        return place.spark.createDataFrame([(tag,) for tag in tags], "tag STRING NOT NULL")
    if type(statement) in ASKING:
        return ASKING[type(statement)](place, name, statement)
    EXECUTORS[type(statement)](place, name, statement)
    return place.spark.range(1).limit(0).select()


def _create_tag(place: Place, name: str, statement: CreateTag) -> None:
    tags = place.table(name).tags
    if statement.replace and statement.tag in tags:  # as in Paimon, REPLACE TAG creates a missing tag
        tags.replace(statement.tag, statement.snapshot, statement.retained)
    else:
        tags.create(statement.tag, statement.snapshot, statement.retained, ignore_if_exists=statement.if_not_exists)


def _delete_tags(place: Place, name: str, statement: DeleteTags) -> None:
    tags = place.table(name).tags
    wanted = parse_names(statement.tags)
    if not statement.if_exists:
        for tag in wanted:
            tags.get(tag)  # if a tag is missing, delete none of them
    for tag in wanted:
        tags.delete(tag, ignore_if_not_exists=True)


def _rename_tag(place: Place, name: str, statement: RenameTag) -> None:
    tags = place.table(name).tags
    if statement.tag in tags or not statement.if_exists:
        tags.rename(statement.tag, statement.to)


def _create_like(place: Place, name: str, statement: CreateTableLike) -> None:
    """Create a table with the columns, keys, partitions, options and comment of another table."""
    provider = (statement.provider or PROVIDERS[0]).lower()
    check_database(place, name.partition(".")[0])
    folder = find_folder(place, build_full_name(statement.source[:-1], statement.source[-1]))
    if isinstance(folder, FormatTable) and (statement.provider is None or provider == folder.format):
        _create_like_folder(place, name, statement, folder)
        return
    if provider not in PROVIDERS:
        raise Unsupported(f"a table USING {provider}", hint="write USING paimon, or leave it out")
    other = next((key for key in statement.options if key in IGNORED or key == "location"), None)
    if other is not None:
        raise Unsupported(f"the property {other!r} in CREATE TABLE LIKE")
    *namespace, source_name = statement.source
    source = place.table(build_full_name(namespace, source_name))
    options = {key: value for key, value in source.options.items() if key != PATH.key}
    try:
        place.catalog.create_table(
            name,
            schema=source._newest,
            partition_keys=source.partition_keys,
            options={**options, **statement.options},
            comment=source.comment,
        )
    except AlreadyExists:
        if not statement.if_not_exists:
            raise


def _create_like_folder(place: Place, name: str, statement: CreateTableLike, source: FormatTable) -> None:
    """Create a format table like another one, in a folder of its own."""
    left_out = (PATH.key, TYPE.key, FILE_FORMAT.key)
    options = {key: value for key, value in source.options.items() if key not in left_out}
    try:
        place.catalog.create_format_table(
            name,
            source.fields,
            format=source.format,
            partition_keys=source.partition_keys,
            options={**options, **statement.options},
            comment=source.comment,
        )
    except AlreadyExists:
        if not statement.if_not_exists:
            raise


def _repair(place: Place, name: str, statement: RepairTable) -> None:
    folder = find_folder(place, name)
    if not isinstance(folder, FormatTable):
        hint = "a table with snapshots has its partitions by its rows"
        raise Unsupported("MSCK REPAIR TABLE of a table with snapshots", where=name, hint=hint)
    repair_partitions(folder._table, adds=statement.adds, drops=statement.drops)


def _analyze_folder(place: Place, table: FormatTable, statement: Analyze) -> None:
    if statement.columns != ():
        raise Unsupported("ANALYZE TABLE FOR COLUMNS of a format table", hint="leave FOR COLUMNS out")
    found = {key.lower(): value for key, value in (statement.partition or {}).items() if value is not None}
    given = {key: found[key.lower()] for key in table.partition_keys if key.lower() in found}
    if len(given) != len(found) or tuple(given) != table.partition_keys[: len(given)]:
        raise InvalidArgument(f"{table.path}: PARTITION names values of the first keys of {table.partition_keys}")
    values = {key: place.spark.sql(f"SELECT {value}").collect()[0][0] for key, value in given.items()}
    analyze_partitions(table._table, values or None, scans=not statement.has_noscan)


def _analyze(place: Place, name: str, statement: Analyze) -> None:
    folder = find_folder(place, name)
    if isinstance(folder, FormatTable):
        _analyze_folder(place, folder, statement)
        return
    check_statement(statement)
    table = place.table(name)
    schema = table._newest
    columns = statement.columns
    named = tuple(schema.by_name) if columns is None else [_find_column(schema, each) for each in columns]
    analyze_by_job(table._target(), check_columns(named), place.spark)


def _analyze_all(place: Place, database: str, statement: AnalyzeTables) -> None:
    """Analyze every table of a database, in the order of their names."""
    check_statement(statement)
    for name in place.catalog.tables(database):
        analyze_by_job(place.table(f"{database}.{name}")._target(), (), place.spark)


def _find_column(schema: TableSchema, name: str) -> str:
    """Return the column that Spark finds by this name, ignoring case. Raises `ColumnNotFound`."""
    alike = [each for each in schema.by_name if each.lower() == name.lower()]
    return name if name in schema.by_name else schema.column(alike[0] if len(alike) == 1 else name).name


EXECUTORS: Mapping[type[Statement], Callable[[Place, str, Any], None]] = {
    CreateTag: _create_tag,
    DeleteTags: _delete_tags,
    RenameTag: _rename_tag,
    CreateTableLike: _create_like,
    Analyze: _analyze,
    AnalyzeTables: _analyze_all,
    CreateView: create_view,
    AlterView: alter_view,
    DropView: drop_view,
    RepairTable: _repair,
    CreateFunction: create_function,
    DropFunction: drop_function,
}
"""Class of a statement that Spark's parser does not know -> the function that executes it."""

ASKING: Mapping[type[Statement], Callable[[Place, str, Any], DataFrame]] = {
    CopyInto: copy_into,
    CopyIntoLocation: copy_into_location,
    DescribeFunction: describe_function,
}
"""Class of a statement that returns rows -> the function that executes it."""

NAMESPACE = "sys"
DEFAULT = "default"
"""The default database of a catalog that is not the session's current one."""
TABLE = "table"
STATEMENT = "statement"
TYPES = dict.fromkeys(Kind, "STRING") | {kind: kind.value for kind in (Kind.INT, Kind.BIGINT, Kind.BOOLEAN, Kind.MAP)}
"""The type to which Spark casts an argument."""


def _list_procedures(_place: Place, _question: Question, _rows: DataFrame | None) -> list[str]:
    return sorted(PROCEDURES)


def _describe_parameters(_place: Place, question: Question, _rows: DataFrame | None) -> list[dict[str, object]]:
    """Describe the parameters of a procedure, in Paimon's order."""
    if question["namespace"] != [NAMESPACE]:
        name = ".".join([*question["namespace"], question["name"]])
        raise InvalidArgument(f"there is no procedure {name}; they are in the database {NAMESPACE}")
    if question["name"] == syntax.PROCEDURE:
        return [{"name": STATEMENT, "type": "STRING", "required": True}]
    found = find_procedure(question["name"])
    own = [{"name": p.name, "type": TYPES[p.kind], "required": p.required} for p in found.parameters]
    return [{"name": TABLE, "type": "STRING", "required": True}, *own] if found.of_table else own


def _call(place: Place, question: Question, _rows: DataFrame | None) -> DataFrame:
    given = {name: parse_value(told) for name, told in question["arguments"].items()}
    if question["name"] == syntax.PROCEDURE:
        return run(place, given[STATEMENT])
    found = find_procedure(question["name"])
    tables = [parameter.name for parameter in found.parameters if parameter.kind is Kind.TABLE]
    for name in (*tables, *((TABLE,) if found.of_table else ())):
        if given.get(name) is not None:
            given[name] = _qualify_name(place, given[name])
    result = call(
        place.spark,
        found.name,
        warehouse=place.catalog,
        storage_options=place.access.storage_options,
        allowed_roots=place.access.allowed_roots,
        **{name: value for name, value in given.items() if value is not None},
    )
    if found.of_table:
        _refresh(place, given[TABLE])
    return result


def _refresh(place: Place, name: str) -> None:
    """Invalidate Spark's cached rows of a table, as after a write: a rollback or a branch may have changed them."""
    session = cast("Any", place.spark)._jsparkSession
    if session.sharedState().cacheManager().isEmpty() or any(mark in name for mark in "*/"):
        return
    place.spark.catalog.refreshTable(".".join(map(quote_name, (place.name, *name.split(".", 1)))))


def _qualify_name(place: Place, text: str) -> str:
    """Return ``database.table`` for a table's name, in the current database if it names none."""
    name = text.removeprefix(f"{place.name}.")
    if not name.strip() or any(mark in name for mark in "./"):  # or a folder, for procedures that accept one
        return name
    catalog, parts = resolve_name(place.spark, (name,))
    return ".".join(parts if catalog == place.name else (DEFAULT, name))


ANSWERS = {"procedures": _list_procedures, "procedure": _describe_parameters, "call": _call}
