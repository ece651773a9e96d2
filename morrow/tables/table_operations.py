"""Operations on whole tables for catalogs and procedures: compact, copy, replace, clone a folder of Parquet files."""

from __future__ import annotations

import functools
import operator
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from morrow.engine.arguments import check_instance
from morrow.engine.catalog.filesystem import FilesystemCatalog, check_warehouse
from morrow.engine.errors import AlreadyExists, InvalidArgument, MorrowError, TableNotFound, Unsupported
from morrow.engine.io.local import LocalStore
from morrow.engine.io.resolve import resolve, to_location
from morrow.engine.options.declared.table import BUCKET, PATH
from morrow.engine.plan.filter import FilterLike
from morrow.engine.schema.columns import assign_type_ids
from morrow.scans.table_scan import make_scan
from morrow.tables.table import Table
from morrow.writers.ingest.sources import to_exact_dataset

if TYPE_CHECKING:
    import pyarrow.dataset as ds

    from morrow.engine.catalog.protocol import Catalog
    from morrow.engine.format.snapshot import Snapshot
    from morrow.engine.plan.metadata import TableMetadata

ALL = ".*"


@dataclass(frozen=True)
class CompactedTable:
    """The result of compacting one table: the snapshot (None if nothing was worth compacting), or the error."""

    name: str
    snapshot: Snapshot | None
    error: MorrowError | None = None


def choose_tables(
    catalog: Catalog, databases: str | None, including: str | None, excluding: str | None
) -> Iterator[str]:
    """Yield the names ``database.table`` that match regular expressions. None includes all and excludes none.

    Raises:
        InvalidArgument: not a regular expression. DatabaseNotFound: there is no such warehouse.
    """
    check_warehouse(catalog)
    of_databases, of_tables = compile_pattern(databases or ALL), compile_pattern(including or ALL)
    others = compile_pattern(excluding) if excluding else None
    for database in catalog.databases():
        if not of_databases.fullmatch(database):
            continue
        for table in catalog.tables(database):
            name = f"{database}.{table}"
            if of_tables.fullmatch(name) and not (others and others.fullmatch(name)):
                yield name


def compile_pattern(text: str) -> re.Pattern[str]:
    """Compile a regular expression. Raises `InvalidArgument`."""
    if not isinstance(text, str):
        raise InvalidArgument(f"a regular expression is text, not {text!r}")
    try:
        return re.compile(text, re.DOTALL)
    except (re.error, TypeError) as error:
        raise InvalidArgument(f"{text!r} is no regular expression: {error}") from error


def compact_tables(
    catalog: Catalog, databases: str | None, including: str | None, excluding: str | None, *, full: bool
) -> list[CompactedTable]:
    """Compact the chosen tables one by one; see `Catalog.compact`."""
    return [
        _compact_table(catalog, name, full) for name in list(choose_tables(catalog, databases, including, excluding))
    ]


def _compact_table(catalog: Catalog, name: str, full: bool) -> CompactedTable:
    try:
        return CompactedTable(name, Table(catalog.table(name)).compact(full=full))
    except MorrowError as error:
        return CompactedTable(name, None, error)


def check_replaceable(catalog: Catalog) -> None:
    """Raise `Unsupported` if the catalog cannot rename tables."""
    if not (isinstance(catalog, FilesystemCatalog) and isinstance(catalog.store, LocalStore)):
        is_remote = isinstance(catalog, FilesystemCatalog)
        why = "an object store, where nothing is renamed" if is_remote else "a catalog that is no warehouse folder"
        raise Unsupported(
            f"REPLACE TABLE in {why},",
            hint="use INSERT OVERWRITE, or drop the table and create it anew",
        )


def replace_table(catalog: Catalog, name: str, by: str) -> TableMetadata:
    """Replace a table with another one; see `Catalog.replace_table`."""
    check_replaceable(catalog)
    old = f"{by}-old"
    try:
        catalog.rename_table(name, old)
    except TableNotFound:
        return catalog.rename_table(by, name)
    try:
        renamed = catalog.rename_table(by, name)
    except BaseException:
        catalog.rename_table(old, name)
        raise
    catalog.drop_table(old)
    return renamed


def copy_table(catalog: Catalog, source: Table, name: str, where: FilterLike) -> Table:
    """Copy the rows of a table; see `Catalog.copy_table`."""
    from morrow.writers.operations.partition_filters import build_partition_filter
    from morrow.writers.target import WriteTarget

    build_partition_filter(WriteTarget.of(check_instance(source, Table, "source")._metadata), None, where, "copy_table")
    made = not catalog.has_table(name)
    if made:
        first = source.schemas()[-1]
        from morrow.engine.schema.creation import build_first_schema  # imports much that reads do not need

        copied = build_first_schema(
            first,
            partition_keys=source.partition_keys,
            options={key: value for key, value in first.options.items() if key not in PATH.keys},
            comment=source.comment,
            where=catalog.where_of(name),
        )
        catalog.create_table(name, copied)
    target = Table(catalog.table(name))
    try:
        _check_alike(source, target)
        if source._metadata.latest_snapshot() is not None:
            rows = make_scan(source._metadata, filter=where, newest=True)
            target.overwrite(rows, dynamic=True)
    except BaseException:
        if made:
            catalog.drop_table(name)
        raise
    return target


def _check_alike(source: Table, target: Table) -> None:
    """Raise `InvalidArgument` if the columns, keys or buckets of the tables differ."""
    if source.path == target.path:
        raise InvalidArgument(f"{source.path}: a table cannot be copied to itself")
    ours, theirs = source.schemas()[-1], target.schemas()[-1]
    # Alterations leave gaps in the ids of members, which a new table does not have.
    types, there = ({each.name: assign_type_ids(each.type, repeat(0)) for each in of.fields} for of in (ours, theirs))
    different = (
        ("primary keys", set(ours.primary_keys) != set(theirs.primary_keys)),
        ("partition columns", ours.partition_keys != theirs.partition_keys),
        ("columns", any(there.get(name) != kind for name, kind in types.items())),
        ("number of buckets", ours.options.get(BUCKET.key) != theirs.options.get(BUCKET.key)),
    )
    for what, is_so in different:
        if is_so:
            raise InvalidArgument(f"{target.path}: the table exists, with other {what} than {source.path}")


def clone_parquet(
    catalog: Catalog, folder: str | os.PathLike[str], name: str, options: Mapping[str, object] | None
) -> Table:
    """Create a table from Parquet files; see `Catalog.clone_parquet`."""
    from morrow.engine.schema.creation import build_first_schema  # imports much that reads do not need

    where = catalog.where_of(name)
    if catalog.has_table(name):
        raise AlreadyExists(f"{where}: the table exists already; nothing was cloned")
    found, partition_keys = open_parquet_folder(to_location(folder, "folder"), name, where)
    first = build_first_schema(found.schema, partition_keys=partition_keys, options=options, where=where)
    table = Table(catalog.create_table(name, first))
    try:
        table.append(found)
    except BaseException:
        catalog.drop_table(name)
        raise
    return table


HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
WHOLE_NUMBER = re.compile(r"0|-?[1-9]\d{0,17}")
"""Texts that are unchanged by parsing as an integer. ``007`` is not one: its zeros would be lost."""
DELTA_VERSION = re.compile(r"\d{20}\.(checkpoint\..*|json)|_last_checkpoint")
HIVE_TRANSACTION = re.compile(r"(base|delta|delete_delta)_\d{7,}(_\d+)*|_orc_acid_version")
ICEBERG_METADATA = (".metadata.json", "version-hint.text")
DUCKLAKE_FILE = "ducklake-"
PAIMON_SCHEMA = re.compile(r"schema-\d+")


class _Writer(NamedTuple):
    """A table format whose Parquet files also contain deleted rows, and how to export its live rows."""

    name: str
    line: str


APPEND = "rows = {rows}; catalog.create_table('{{name}}', rows).append(rows)"
DELTA = _Writer("Delta Lake", APPEND.format(rows="""duckdb.sql("FROM delta_scan('{path}')")"""))
ICEBERG = _Writer("Iceberg", APPEND.format(rows="""duckdb.sql("FROM iceberg_scan('{path}')")"""))
HUDI = _Writer("Hudi", APPEND.format(rows="spark.read.format('hudi').load('{path}').toArrow()"))
STREAM = _Writer("Spark's streaming sink", APPEND.format(rows="spark.read.parquet('{path}').toArrow()"))
DUCKLAKE = _Writer(
    "DuckLake", APPEND.format(rows="""duckdb.sql("ATTACH 'ducklake:<catalog>' AS lake; FROM lake.<table>")""")
)
HIVE = _Writer(
    "Hive with transactions",
    "INSERT OVERWRITE DIRECTORY '<folder>' STORED AS PARQUET SELECT * FROM <table>, in Hive, and clone that folder",
)
PAIMON = _Writer("Paimon", "catalog.copy_table(morrow.open('{path}'), '{name}')")
FOOTER_KEYS: Mapping[bytes, _Writer] = {b"iceberg.schema": ICEBERG, b"org.apache.hudi.bloomfilter": HUDI}
OWN_COLUMNS: Mapping[str, _Writer] = {
    "_hoodie_commit_time": HUDI,
    "_VALUE_KIND": PAIMON,
    "_SEQUENCE_NUMBER": PAIMON,
    "_ducklake_internal_row_id": DUCKLAKE,
}


def open_parquet_folder(location: str, name: str, target: str) -> tuple[ds.Dataset, list[str]]:
    """Return the Parquet files below a local folder as one dataset, and the partition columns in their folder names.

    Args:
        name: the table to be created, for messages.
        target: the location of the table to be created.

    Raises:
        Unsupported: a folder that is not local, or that holds a table of another format.
        InvalidArgument: no Parquet file, or files and folders that contradict each other.
    """
    import pyarrow.dataset as ds
    import pyarrow.fs as fs

    store, root = resolve(location)
    if not store.is_local:
        raise Unsupported("a clone of Parquet files that lie in no local folder", where=location)
    if not Path(root).is_dir():
        raise InvalidArgument(f"{location}: there is no such folder")
    _check_apart(root, target)
    paths = list(_list_files(root, name))
    if not paths:
        raise InvalidArgument(f"{location}: there is no Parquet file in this folder")
    try:
        local, form = fs.LocalFileSystem(), ds.ParquetFileFormat()
        values = [_parse_folder_values(root, path) for path in paths]
        plain = [form.make_fragment(path, local) for path in paths]
        for fragment in plain:
            _check_footer(fragment, root, name)
        schema = _merge_schemas(plain)
        keys = _find_common_keys(paths, values)
        partitions = pa.schema([_make_partition_field(key, [one[key] for one in values], schema) for key in keys])
        placed = [
            form.make_fragment(path, local, _build_guarantee(partitions, one, path)) if keys else fragment
            for path, one, fragment in zip(paths, values, plain, strict=True)
        ]
        for fragment, one in zip(plain, values, strict=True):
            _check_values(fragment, partitions, one)
        schema = pa.unify_schemas([schema, partitions])
        _check_distinct(schema, location)
        return cast("ds.Dataset", to_exact_dataset(ds.FileSystemDataset(placed, schema, form, local))), keys
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OSError, UnicodeError) as error:
        raise InvalidArgument(f"{location}: {str(error).splitlines()[0]}") from error


def _check_apart(root: str, target: str) -> None:
    """Raise `InvalidArgument` if the files would lie in the new table: its maintenance or drop would remove them."""
    source, goal = os.path.realpath(root), os.path.realpath(target)
    is_local = Path(target).is_absolute()  # not a table's title in a catalog or a URL
    if is_local and os.path.commonpath([source, goal]) in (source, goal):
        raise InvalidArgument(
            f"{target}: the table would lie in the folder that it is made of, {root}, or around it; "
            "give it another name, or a warehouse elsewhere"
        )


# Folders


def _list_files(root: str, name: str) -> Iterator[str]:
    """Yield the paths of data files, sorted. Raises `Unsupported` if the folder is part of another kind of table."""
    for parent in Path(root).resolve().parents:
        _check_folder(str(parent), name)
    walked: set[str] = set()
    for folder, folders, files in os.walk(root, followlinks=True):
        _check_folder(folder, name)
        real = os.path.realpath(folder)
        folders[:] = [] if real in walked else sorted(each for each in folders if not _is_hidden(each))
        if real not in walked:
            yield from (str(Path(folder, each)) for each in sorted(files) if not _is_hidden(each))
        walked.add(real)


def _is_hidden(name: str) -> bool:
    """Return whether Spark skips a file or folder. It does not skip ``_day=1``, the folder of a column."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def _check_folder(folder: str, name: str) -> None:
    """Raise `Unsupported` if the folder belongs to a table of another format."""
    entries = _list_names(folder)
    if any(DELTA_VERSION.fullmatch(each) for each in _list_names(folder, "_delta_log")):
        raise _make_refusal(DELTA, folder, name)
    metadata = [each for each in _list_names(folder, "metadata") if each.endswith(ICEBERG_METADATA)]
    if metadata:
        newest = max((Path(folder, "metadata", each) for each in metadata), key=lambda each: each.stat().st_mtime)
        raise _make_refusal(ICEBERG, folder, name, str(newest))
    if ".hoodie" in entries:
        raise _make_refusal(HUDI, folder, name)
    if any(PAIMON_SCHEMA.fullmatch(each) for each in _list_names(folder, "schema")):
        raise _make_refusal(PAIMON, folder, name)
    if "_spark_metadata" in entries:
        raise _make_refusal(STREAM, folder, name)
    if any(each.startswith(DUCKLAKE_FILE) for each in entries):
        raise _make_refusal(DUCKLAKE, folder, name)
    if any(HIVE_TRANSACTION.fullmatch(each) for each in entries):
        raise _make_refusal(HIVE, folder, name)


def _list_names(*parts: str) -> list[str]:
    try:
        return [each.name for each in Path(*parts).iterdir()]
    except OSError:  # missing, not a folder, or not readable
        return []


def _make_refusal(writer: _Writer, folder: str, name: str, path: str | None = None) -> Unsupported:
    quoted = (path or folder).replace("\\", "\\\\").replace("'", "\\'")
    return Unsupported(
        f"a clone of the files of a table of {writer.name}, some of which may hold removed rows,",
        where=folder,
        hint=f"write instead: {writer.line.format(path=quoted, name=name)}",
    )


def _parse_folder_values(root: str, path: str) -> dict[str, str | None]:
    """Return the values that the folders ``<column>=<value>`` between `root` and a file name, None for null.

    Raises:
        InvalidArgument: a column is named twice.
    """
    found: dict[str, str | None] = {}
    for part in Path(path).relative_to(root).parts[:-1]:
        key, is_value, value = part.partition("=")
        if is_value:
            column = unquote(key, errors="strict")
            if column in found:
                raise InvalidArgument(f"{path}: two of its folders name the column {column!r}")
            found[column] = None if value == HIVE_NULL else unquote(value, errors="strict")
    return found


def _find_common_keys(paths: Sequence[str], values: Sequence[Mapping[str, str | None]]) -> list[str]:
    """Return the columns that the folder names of all files contain.

    Raises:
        InvalidArgument: the folders of two files name different columns, or the same columns in another order.
    """
    for path, one in zip(paths, values, strict=True):
        if list(one) != list(values[0]):
            raise InvalidArgument(
                f"{path}: its folders name {', '.join(one) or 'no column'}, those of {paths[0]} name "
                f"{', '.join(values[0]) or 'no column'}; clone folders of one kind at a time"
            )
    return list(values[0])


# Columns


def _check_footer(fragment: ds.ParquetFileFragment, root: str, name: str) -> None:
    """Raise `Unsupported` if the file was written for a table of another format."""
    notes = fragment.metadata.metadata or {}
    found = [writer for key, writer in FOOTER_KEYS.items() if key in notes]
    found += [writer for column, writer in OWN_COLUMNS.items() if column in fragment.physical_schema.names]
    if found:
        raise _make_refusal(found[0], root, name)


def _merge_schemas(fragments: Sequence[ds.ParquetFileFragment]) -> pa.Schema:
    """Return the columns of all files. A column missing in a file becomes nullable.

    Raises:
        InvalidArgument: files whose columns differ in type.
    """
    plain = [pa.schema([_simplify_field(field) for field in each.physical_schema]) for each in fragments]
    try:
        merged = pa.unify_schemas(plain, promote_options="default")
    except pa.ArrowTypeError as error:
        raise _describe_conflict(plain, fragments) or error from error
    always = set.intersection(*(set(schema.names) for schema in plain))
    return pa.schema([field if field.name in always else field.with_nullable(True) for field in merged])


def _describe_conflict(
    schemas: Sequence[pa.Schema], fragments: Sequence[ds.ParquetFileFragment]
) -> InvalidArgument | None:
    first: dict[str, tuple[pa.DataType, str]] = {}
    for schema, fragment in zip(schemas, fragments, strict=True):
        for field in (field for field in schema if not pa.types.is_null(field.type)):
            known, path = first.setdefault(field.name, (field.type, fragment.path))
            if field.type != known:
                return InvalidArgument(
                    f"{fragment.path}: the column {field.name!r} is {field.type}, in {path} it is {known}; clone files "
                    "of one type at a time, or append what polars.scan_parquet(...).cast(...) returns"
                )
    return None


def _simplify_field(field: pa.Field, name: str | None = None) -> pa.Field:
    """Return a column without what is Arrow's alone in the footer: dictionaries, views, 64-bit offsets."""
    kind = _simplify_type(field.type)
    return pa.field(name or field.name, kind, field.nullable, field.metadata)


def _simplify_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _simplify_type(kind.value_type)
    if isinstance(kind, pa.ListType | pa.LargeListType | pa.ListViewType | pa.LargeListViewType):
        return pa.list_(_simplify_field(kind.value_field, "element"))
    if pa.types.is_map(kind):
        return pa.map_(_simplify_field(kind.key_field, "key"), _simplify_field(kind.item_field, "value"))
    if pa.types.is_struct(kind):
        return pa.struct([_simplify_field(kind.field(at)) for at in range(kind.num_fields)])
    return PLAIN.get(kind, kind)


PLAIN = {
    **dict.fromkeys((pa.large_string(), pa.string_view()), pa.string()),
    **dict.fromkeys((pa.large_binary(), pa.binary_view()), pa.binary()),
}
"""Types of Parquet's texts and bytes, by Arrow's other layouts of them."""


def _make_partition_field(key: str, values: Sequence[str | None], schema: pa.Schema) -> pa.Field:
    """Return the field of a partition column: its type in the files if present, else BIGINT or text by its values."""
    if key in schema.names:
        return schema.field(key).with_nullable(True)
    given = [value for value in values if value is not None]
    if not given or not all(WHOLE_NUMBER.fullmatch(value) for value in given):
        return pa.field(key, pa.string())
    is_small = all(-(2**31) <= int(value) < 2**31 for value in given)
    return pa.field(key, pa.int32() if is_small else pa.int64())


def _build_guarantee(partitions: pa.Schema, values: Mapping[str, str | None], path: str) -> ds.Expression:
    """Return the partition expression of a file, from which Arrow takes the folder values."""
    import pyarrow.dataset as ds

    conditions = [
        ds.field(field.name).is_null() if scalar.as_py() is None else ds.field(field.name) == scalar
        for field in partitions
        for scalar in [_parse_value(field, values[field.name], path)]
    ]
    return functools.reduce(operator.and_, conditions)


def _parse_value(field: pa.Field, text: str | None, path: str) -> pa.Scalar:
    try:
        return pa.scalar(text, pa.string()).cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidArgument(f"{path}: {field.name}={text} names no {field.type}, the type of the column") from error


def _check_values(fragment: ds.ParquetFileFragment, partitions: pa.Schema, values: Mapping[str, str | None]) -> None:
    """Raise `InvalidArgument` if a partition column in the file contradicts its folder."""
    held = [field for field in partitions if field.name in fragment.physical_schema.names]
    if not held:
        return
    schema = pa.schema(held)
    for batch in fragment.to_batches(schema=schema, columns=schema.names):
        for field in held:
            expected = _parse_value(field, values[field.name], fragment.path)
            found = batch.column(field.name)
            equal = found.is_null() if not expected.is_valid else pc.fill_null(pc.equal(found, expected), False)
            if not pc.all(equal).as_py():
                other = found.filter(pc.invert(equal))[0].as_py()
                raise InvalidArgument(
                    f"{fragment.path}: a row has {field.name} = {other!r}, but lies in the folder of "
                    f"{values[field.name]!r}"
                )


def _check_distinct(schema: pa.Schema, location: str) -> None:
    """Raise `InvalidArgument` if two column names differ only in case."""
    known: dict[str, str] = {}
    for column in schema.names:
        other = known.setdefault(column.casefold(), column)
        if other != column or schema.names.count(column) > 1:
            raise InvalidArgument(f"{location}: columns {other!r} and {column!r} differ in case alone; rename one")
