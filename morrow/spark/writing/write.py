"""`morrow.spark.write` and `upsert`: writes of Spark DataFrames to tables, by the executors."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, cast, get_args

from morrow.engine.errors import AlreadyExists, InvalidArgument, TableNotFound
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.types import ArrayType, DataType, MapType, RowType
from morrow.engine.io.resolve import Roots, resolve, resolve_roots
from morrow.engine.plan.filter import FilterLike
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.schema.creation import build_first_schema
from morrow.engine.schema.evolution import create_first_schema
from morrow.engine.schema.schema_changes import ELEMENT, KEY, VALUE, Path, format_path
from morrow.engine.structs import replace
from morrow.spark.expressions import quote_name
from morrow.spark.types import drop_not_null, to_paimon_fields, to_spark_type
from morrow.spark.writing.job import Commit, Replaced
from morrow.spark.writing.job import write as write_job
from morrow.spark.writing.schema_evolution import Evolution, extend_schema
from morrow.tables.table import Table
from morrow.writers.operations.partition_filters import PartitionSpec, build_partition_filter, parse_partition_spec
from morrow.writers.target import WriteTarget, check_write_options, override_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Mode = Literal["append", "overwrite", "error", "errorifexists", "ignore"]
MODES = get_args(Mode)
Place: TypeAlias = str | os.PathLike[str] | Table
"""The target of a write: the table's folder or URL, or the table as returned by `morrow.open`."""
Naming: TypeAlias = Callable[[Sequence[str], Sequence[str], Path], list[str]]
"""A function from names in the data, names in the table, and the path of the struct column (if any) to new names."""
NEW_ONLY = ("error", "errorifexists")
CASE_SENSITIVE = "spark.sql.caseSensitive"
OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"


class Create(TypedDict, total=False):
    """The arguments for creating a missing table; see `morrow.Catalog.create_table`."""

    primary_keys: str | Sequence[str]
    partition_keys: str | Sequence[str]
    options: Mapping[str, object]
    comment: str
    defaults: Mapping[str, object]


def write(
    rows: DataFrame,
    path: Place,
    mode: Mode = "append",
    *,
    partition: Mapping[str, object] | None = None,
    dynamic: bool | None = None,
    replace_where: FilterLike | None = None,
    kinds: str | None = None,
    commit_user: str | None = None,
    commit_identifier: int | None = None,
    watermark: int | None = None,
    properties: Mapping[str, str] | None = None,
    create: Create | None = None,
    merge_schema: bool | Evolution = False,
    options: Mapping[str, str] | None = None,
    branch: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    allowed_roots: Roots = (),
) -> Snapshot | None:
    """Write the rows of a DataFrame to the table at `path`, in one commit, exactly once even if Spark repeats tasks.

    Rows are shuffled by partition and bucket, tasks write (and compact if readers wait for it), the driver commits,
    then maintains the table as its options say (tags, expiry). If a DataFrame has several rows of one key, any may
    count as the last one, as in every engine that shuffles. Give the table a ``sequence.field`` to prevent this.

    Args:
        rows: columns are matched by name, in any order and case (by case if ``spark.sql.caseSensitive`` is set);
            missing columns as in `Table.append`.
        path: the table's folder or URL, valid on every executor, or a `Table`.
        mode: ``append`` adds rows (with a primary key: upserts them); ``overwrite`` replaces rows as `Table.overwrite`;
            ``error`` (or ``errorifexists``) refuses to write to an existing table, and ``ignore`` leaves it as it is.
        partition, dynamic: for an overwrite, as for `Table.overwrite`. If `dynamic` is None and the session has
            ``spark.sql.sources.partitionOverwriteMode`` set, the setting decides, before the table's option.
        replace_where: for an overwrite: a condition on partition columns, as the filter of `read`. The partitions for
            which it is true are replaced by the rows, which belong to such partitions.
        kinds: one row kind for all rows (``"-D"``), or the name of a column with the kind of each row.
        commit_user, commit_identifier: write nothing if this user has committed this identifier or a higher one;
            identifiers grow.
        watermark: event time up to which the rows are complete, epoch milliseconds.
        properties: stored in the snapshot.
        create: create the table if it does not exist, with the DataFrame's columns, nullable except for keys:
            ``create=dict(primary_keys=["id"], partition_keys=["dt"], options={"bucket": 4})``.
        merge_schema: add columns that the table lacks before rows are written, as
            ``write.merge-schema`` of Paimon; they stay if the write fails. Columns that the rows lack are null. An
            `Evolution` changes types, too.
        options: overrides of table options for this write only: ``{"write-only": "true"}``. Allowed are options that
            control how files are written, compacted, committed and kept; others are refused.
        branch, storage_options, allowed_roots: as for `morrow.open`; only with a path.

    Returns: the last snapshot created, or None if there was nothing to commit or it had been committed before.

    Raises:
        TableNotFound: no such table, without `create`. AlreadyExists: the table exists, in the mode ``error``.
        ColumnNotFound, InvalidArgument, Unsupported: wrong arguments, columns, types or values; nothing
            was written.
        CommitConflict, UnclearOutcome: as `Writer.commit`.
    """
    if mode not in MODES:
        raise InvalidArgument(f"mode={mode!r}; it is one of {', '.join(MODES)}")
    if mode != "overwrite" and any(x is not None for x in (partition, dynamic, replace_where)):
        raise InvalidArgument(f"partition, dynamic and replace_where belong to mode='overwrite', not to {mode!r}")
    if replace_where is not None and (partition is not None or dynamic):
        raise InvalidArgument("replace_where says which partitions are overwritten; leave partition and dynamic out")
    check_numbered(commit_user, commit_identifier)
    metadata = open_metadata(path, branch, storage_options, allowed_roots)
    made = _make(metadata, rows, create, kinds, must_be_new=mode in NEW_ONLY)
    if mode == "ignore" and not made:
        return None
    rows = _match_case(rows, metadata.latest_schema(), kinds)
    if merge_schema:
        columns = [field for field in to_paimon_fields(rows.schema) if field.name != kinds]
        extend_schema(metadata, columns, merge_schema if isinstance(merge_schema, Evolution) else Evolution())
        rows = _add_nulls(rows, metadata.latest_schema(), partition or {})
    check_write_options(options or ())
    target = override_options(WriteTarget.of(metadata, commit_user), options or {})
    commit = Commit(commit_identifier, watermark, dict(properties or {}))
    if replace_where is not None:
        condition = build_partition_filter(target, None, replace_where, "replace_where")
        commit = replace(commit, replaced=condition)
    elif mode == "overwrite":
        spec = parse_partition_spec(target, partition or {})
        dynamic = is_overwriting_dynamically(rows.sparkSession) if dynamic is None else dynamic
        rows, commit = _add_partition(rows, target, spec), _make_overwrite(commit, target, spec, dynamic)
    return write_job(rows, target, kinds, commit)


def upsert(rows: DataFrame, path: Place, **arguments: Any) -> Snapshot | None:
    """Upsert the rows of a DataFrame: they replace, or are merged with, the rows of their keys. Arguments as `write`.

    Raises:
        InvalidArgument: the table lacks a primary key. Others: as `write`.
    """
    metadata = open_metadata(
        path, arguments.get("branch"), arguments.get("storage_options"), arguments.get("allowed_roots")
    )
    there = metadata.schema_ids()
    schema = (
        metadata.latest_schema()
        if there
        else _make_schema(metadata, rows, arguments.get("create"), arguments.get("kinds"))
    )
    if not schema.primary_keys:
        raise InvalidArgument(f"{metadata.where}: it has no primary key to upsert by; use morrow.spark.write")
    return write(rows, path, "append", **arguments)


def is_overwriting_dynamically(spark: SparkSession) -> bool | None:
    """Return whether the session's ``spark.sql.sources.partitionOverwriteMode`` is dynamic; None if it is not set."""
    mode = spark.conf.get(OVERWRITE_MODE, None)
    return None if mode is None else mode.lower() == "dynamic"


def is_case_sensitive(spark: SparkSession) -> bool:
    """Return whether column names are case-sensitive in the session."""
    return str(spark.conf.get(CASE_SENSITIVE, "false")).lower() == "true"


def check_numbered(commit_user: str | None, commit_identifier: int | None) -> None:
    """Raise `InvalidArgument` for an identifier without a user."""
    if commit_identifier is not None and commit_user is None:
        raise InvalidArgument("commit_identifier numbers the commits of a commit_user; give one")


def open_metadata(
    path: Place,
    branch: str | None,
    storage_options: Mapping[str, str] | None,
    allowed_roots: Roots | None,
) -> TableMetadata:
    """Return the metadata of the target table, which need not exist.

    Raises `InvalidArgument`: a `Table` together with arguments for opening it.
    """
    if isinstance(path, Table):
        if branch is not None or storage_options or allowed_roots:
            raise InvalidArgument("branch, storage_options and allowed_roots belong to a path; a Table has its own")
        return path._metadata
    store, root = resolve(os.fspath(path), storage_options)
    metadata = TableMetadata(store, root, allowed_roots=resolve_roots(allowed_roots or ()))
    return metadata if branch is None else metadata.on_branch(branch)


def _make(
    metadata: TableMetadata, rows: DataFrame, create: Create | None, kinds: str | None, *, must_be_new: bool
) -> bool:
    """Create the table if it does not exist; return whether it was created."""
    if metadata.schema_ids():
        if must_be_new:
            raise AlreadyExists(f"{metadata.where}: there is a table already, and mode='error'")
        return False
    try:
        create_first_schema(metadata, _make_schema(metadata, rows, create, kinds))
    except AlreadyExists:  # another process has created it meanwhile
        if must_be_new:
            raise
        return False
    return True


def _make_schema(metadata: TableMetadata, rows: DataFrame, create: Create | None, kinds: str | None) -> TableSchema:
    """Return the schema of a table for these rows, without the column of row kinds."""
    if create is None:
        raise TableNotFound(
            f"{metadata.where}: there is no table; make one with morrow.Catalog.create_table, or by create=dict(...)"
        )
    unknown = sorted(set(create) - set(Create.__annotations__))
    if unknown:
        raise InvalidArgument(f"create: {unknown[0]!r} is none of {', '.join(Create.__annotations__)}")
    # Nullable as in CREATE TABLE AS: later rows may contain nulls even if this expression does not.
    columns = [field for field in to_paimon_fields(rows.schema) if field.name != kinds]
    return build_first_schema(drop_not_null(columns), **create, where=metadata.where)


def _match_case(rows: DataFrame, schema: TableSchema, kinds: str | None) -> DataFrame:
    """Rename columns, and members of columns, that differ from the table's only in case."""
    return rows if is_case_sensitive(rows.sparkSession) else rename_columns(rows, schema, _make_case_naming(kinds))


def match_case(data: StructType, schema: TableSchema) -> StructType:
    """Return the type of rows with names that differ from the table's only in case renamed to the table's."""
    return cast("StructType", _rename_members(data, RowType(fields=schema.fields), _make_case_naming(None), ()))


def _make_case_naming(kinds: str | None) -> Naming:
    def in_case(given: Sequence[str], known: Sequence[str], path: Path) -> list[str]:
        free = {name.casefold(): name for name in known if name not in given}
        kept = {*known, *([] if path or kinds is None else [kinds])}
        return [old if old in kept else free.get(old.casefold(), old) for old in given]

    return in_case


def name_by_position(rows: DataFrame, schema: TableSchema, where: str) -> DataFrame:
    """Rename the first columns of rows, and their members, to the table's names by position.

    Raises `InvalidArgument`: a duplicate name, or a ROW whose number of members differs from the table's.
    """

    def in_order(given: Sequence[str], known: Sequence[str], path: Path) -> list[str]:
        if path and len(given) != len(known):
            raise InvalidArgument(
                f"{where}: {len(given)} values for the {len(known)} members of {format_path(path)}, "
                f"{', '.join(known)}; "
                "give one for each, or insert BY NAME with named_struct(...)"
            )
        folded, more = {name.casefold() for name in known}, given[len(known) :]
        if len(folded | {name.casefold() for name in more}) < len(folded) + len(more):
            raise InvalidArgument(f"{where}: the columns {', '.join(more)} are there already")
        return [*known[: len(given)], *more]

    return rename_columns(rows, schema, in_order)


def name_unknown_by_position(rows: DataFrame, schema: TableSchema) -> DataFrame:
    """Rename columns that the table lacks to the table's columns at their positions, as Paimon does in ``save(path)``.

    The rows stay unchanged unless they have as many columns as the table, with all known names at their positions.
    """

    def in_place(given: Sequence[str], known: Sequence[str], path: Path) -> list[str]:
        own, others = [name.casefold() for name in known], [name.casefold() for name in given]
        is_in_place = len(own) == len(others) and all(
            new == old or new not in own for new, old in zip(others, own, strict=True)
        )
        return [*known] if is_in_place and not path else [*given]

    return rename_columns(rows, schema, in_place)


def rename_columns(rows: DataFrame, schema: TableSchema, naming: Naming) -> DataFrame:
    """Rename the columns of rows, and the members of columns that the table has. Values stay unchanged."""
    from pyspark.sql import functions

    before = rows.schema
    after = _rename_members(before, RowType(fields=schema.fields), naming, ())
    if after.names != before.names:
        rows = rows.toDF(*after.names)
    if all(new.dataType == old.dataType for new, old in zip(after.fields, before.fields, strict=True)):
        return rows
    columns = (functions.col(quote_name(field.name)).cast(field.dataType) for field in after.fields)
    return rows.select(*(made.alias(name) for made, name in zip(columns, after.names, strict=True)))


def _rename_members(data: Any, stored: DataType, naming: Naming, path: Path) -> Any:
    """Return the type of the data with renamed members: Spark casts structs member by member."""
    from pyspark.sql import types as s

    if isinstance(data, s.StructType) and isinstance(stored, RowType):
        known = {field.name: field.type for field in stored.fields}
        members = []
        for name, field in zip(naming(data.names, [*known], path), data.fields, strict=True):
            kind = (
                field.dataType
                if name not in known
                else _rename_members(field.dataType, known[name], naming, (*path, name))
            )
            members.append(s.StructField(name, kind, field.nullable, field.metadata))
        return s.StructType(members)
    if isinstance(data, s.ArrayType) and isinstance(stored, ArrayType):
        return s.ArrayType(
            _rename_members(data.elementType, stored.element, naming, (*path, ELEMENT)), data.containsNull
        )
    if isinstance(data, s.MapType) and isinstance(stored, MapType):
        key = _rename_members(data.keyType, stored.key, naming, (*path, KEY))
        return s.MapType(
            key, _rename_members(data.valueType, stored.value, naming, (*path, VALUE)), data.valueContainsNull
        )
    return data


def _add_nulls(rows: DataFrame, schema: TableSchema, given: Mapping[str, object]) -> DataFrame:
    """Add missing columns as nulls, except columns with a default or with a value elsewhere."""
    from pyspark.sql import functions

    there = {*rows.columns, *given}
    lacking = [f for f in schema.fields if f.name not in there and f.default_value is None and f.type.nullable]
    nulls = (functions.lit(None).cast(to_spark_type(field.type, field.name)).alias(field.name) for field in lacking)
    return rows.select("*", *nulls) if lacking else rows


def _add_partition(rows: DataFrame, target: WriteTarget, spec: PartitionSpec) -> DataFrame:
    """Add the partition columns that the rows lack."""
    from pyspark.sql import functions

    for name, value in spec.items():
        if name not in rows.columns:
            kind = to_spark_type(target.schema.by_name[name].type, name)
            rows = rows.withColumn(name, functions.lit(value).cast(kind))
    return rows


def _make_overwrite(commit: Commit, target: WriteTarget, spec: PartitionSpec, dynamic: bool | None) -> Commit:
    chosen = target.write.dynamic_partition_overwrite if dynamic is None else dynamic
    replaced: Replaced = "dynamic" if target.partition_fields and chosen else spec
    return Commit(commit.identifier, commit.watermark, commit.properties, replaced, within=spec)
