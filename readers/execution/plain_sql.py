"""Plan as one DuckDB statement over ``read_parquet``, which runs without Morrow, and its execution by DuckDB.

RAW sections are scans without the positions that deletion vectors name dead. A MERGE section is a relation of versions
under the SQL of its merge engine (`readers.merges.sql_merge`). If Morrow runs the statement, masks replace both:
`MaskTable` hands them over as a bit string for each file, which DuckDB joins with the scan by the number of the file.
DuckDB then tests the conditions of a query in its scan of the files, and looks up the bits of the remaining rows. Files
without dead rows are not joined. Files of older schemas are selected with their own names of the columns, and cast if
DuckDB casts as Paimon does. Columns whose statistics DuckDB would misread are hidden from its statistics. `Unsupported`
is raised for anything that SQL cannot express.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa

from morrow.engine.errors import MorrowError, StorageError, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.file_formats import PARQUET
from morrow.engine.format.map_shredding import has_shared_maps
from morrow.engine.format.schema import LEVEL, SEQUENCE_NUMBER, VALUE_KIND
from morrow.engine.io.store import FileStore
from morrow.engine.merge.spec import MergeSpec
from morrow.engine.plan.manifests import guard_read
from morrow.engine.plan.predicate import Leaf, Op, Predicate, find_columns, split_conjuncts
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section, SectionKind
from morrow.engine.polars_threads import refuse_in_fork
from morrow.readers.casts.dtypes import to_frame
from morrow.readers.execution.strategy import WHOLE, scan_masks
from morrow.readers.expressions.sql import (
    REALS,
    check_duckdb,
    has_reals,
    list_inner_types,
    name_type,
    open_session,
    query_errors,
    quote_identifier,
    quote_literal,
    quote_path,
    read_stream,
    run_query,
)
from morrow.readers.expressions.sql import compile as compiled
from morrow.readers.files.file_frames import fail_alone, list_virtual_columns, list_written_fields, make_source
from morrow.readers.files.source import get_first_line
from morrow.readers.masks.live_rows import read_deletion
from morrow.readers.merges.sql_merge import merge_query
from morrow.readers.merges.sql_statements import Names

if TYPE_CHECKING:
    import duckdb

RunQuery: TypeAlias = Callable[[str, Mapping[str, pa.Table]], "duckdb.DuckDBPyRelation"]
"""Returns the relation of a query over relations with these names."""
POSITION = "file_row_number"
"""DuckDB's column of positions in a file."""
VERSIONS = "versions"
UNION = "\nUNION ALL\n"
MAX_LISTED_POSITIONS = 1_000
"""Maximum dead positions that are listed one by one; more are encoded as bits of a literal."""
NO_HASH_ORDER = "Paimon's order of distinct elements is that of a hash table of Java's"
NO_SIGNED_ZEROS = "DuckDB takes 0.0 and -0.0 for one"
NO_ROWS = "WHERE false"
BLOB_TYPE = "BLOB"
"""DuckDB's name of the type of bytes."""
MAX_FILTERED_BATCH_ROWS = 1 << 16
"""Maximum rows of a batch of filtered rows; after each batch the memory limit is checked."""


def build_plain_sql(plan: ScanPlan, store: FileStore, *, bare: bool = False, masks: MaskTable | None = None) -> str:
    """Return a statement that selects the plan's rows, in no particular order; it ends without a semicolon.

    `bare`: return a short form for DuckDB to bind. Columns then have the types that DuckDB finds in the files, which
    are the table's types except in unusual files.
    `masks`: collects the masks, which the statement reads. Keys whose versions are combined are then left out.

    Raises:
        Unsupported: files, types, casts, merges or filters that SQL cannot express.
        CorruptFile, FileMissing: a deletion vector cannot be read.
    """
    if not plan.columns:
        raise Unsupported("a read of no columns as SQL", where=plan.table)
    with guard_read(plan, store):
        parts = [select for part in plan.parts for select in _select_part(part, store, bare, masks)]
    rows, where = UNION.join(parts) or _select_no_rows(plan), "" if masks is not None else _build_where(plan)
    if not where and plan.limit is None and tuple(field.name for field in _list_fields(plan)) == plan.columns:
        return rows  # DuckDB binds every column of a query around it, too
    names = ", ".join(map(quote_identifier, plan.columns))
    limit = "" if plan.limit is None else f"\nLIMIT {plan.limit}"
    return f"SELECT {names}\nFROM (\n{rows}\n) AS live{where}{limit}"


def _select_no_rows(plan: ScanPlan) -> str:
    names = ", ".join(f"CAST(NULL AS {to_duckdb_type(f)}) AS {quote_identifier(f.name)}" for f in _list_fields(plan))
    return f"SELECT {names} {NO_ROWS}"


def _list_fields(plan: ScanPlan) -> tuple[t.DataField, ...]:
    return tuple(plan.schema.by_name[name] for name in plan.read_columns if name in plan.schema.by_name)


def _build_where(plan: ScanPlan) -> str:
    conditions = [_write_conjunct(each, plan) for each in split_conjuncts(plan.filter.predicate)]
    for residual in plan.filter.residuals:
        zoned = [n for n in residual.columns if isinstance(plan.schema.by_name[n].type, t.LocalZonedTimestampType)]
        if residual.kind != "sql" or zoned:
            raise Unsupported(f"the condition {residual.text!r} as SQL", where=plan.table)
        conditions.append(f"({residual.expression}\n)")
    return f"\nWHERE {' AND '.join(conditions)}" if conditions else ""


def _write_conjunct(predicate: Predicate, plan: ScanPlan) -> str:
    """Return a condition as SQL. DuckDB decodes all columns of all rows for ``IN``, and of few rows for ``CASE``."""
    text = compiled(predicate, plan.schema.fields)
    listed = isinstance(predicate, Leaf) and predicate.op is Op.IN
    return f"CASE WHEN {text} THEN true ELSE false END" if listed else text


# Sections


def _select_part(plan: ScanPlan, store: FileStore, bare: bool, masks: MaskTable | None) -> Iterable[str]:
    fields = _list_fields(plan)
    names = [field.name for field in plan.schema.fields]
    if len({name.casefold() for name in names}) < len(names):
        raise Unsupported("SQL on columns that differ only in case", where=plan.table, hint="DuckDB takes them for one")
    if len(fields) < len(plan.read_columns) or list_virtual_columns(plan, fields):
        raise Unsupported("columns that no file holds, as SQL,", where=plan.table)
    if has_shared_maps(plan.file_options, fields):
        raise Unsupported("maps in shared columns, as SQL,", where=plan.table)
    for section in plan.sections:
        if section.kind in WHOLE or section.cut is not None:
            raise Unsupported("rows whose columns lie in several files, as SQL,", where=plan.table)
        retracts = plan.drops_retractions and any(file.may_hold_retractions for file in section.files)
        if masks is not None and retracts and section.kind is SectionKind.RAW:
            raise Unsupported("retractions beside masks in SQL", where=plan.table)
        if masks is None and (retracts or section.kind is SectionKind.MERGE):
            yield _select_merged(plan, section, fields, store)
        elif masks is None:
            yield from _select_raw(plan, section, fields, store, bare)
    if masks is not None:
        yield from _select_masked(plan, fields, store, bare, masks)


def _select_raw(
    plan: ScanPlan, section: Section, fields: Sequence[t.DataField], store: FileStore, bare: bool
) -> Iterable[str]:
    def shape(file: DataFile) -> tuple[object, ...]:
        return *_find_shape(file), file.path if file.deletion is not None else ""

    for _, group in groupby(sorted(section.files, key=lambda file: str(shape(file))), key=shape):
        files = list(group)
        condition = None if files[0].deletion is None else _build_live_condition(files[0], store)
        yield _select_files(plan, section, files, fields, store, bare=bare, condition=condition)


def _find_shape(file: DataFile) -> tuple[object, ...]:
    """Return the properties that files must share to be read by one scan."""
    return file.schema_id, file.write_columns or (), file.format


def _select_masked(
    plan: ScanPlan, fields: Sequence[t.DataField], store: FileStore, bare: bool, masks: MaskTable
) -> Iterable[str]:
    """Yield one scan for all files that share shape and partition, and are either all masked or all unmasked."""
    scans: dict[tuple[object, ...], tuple[Section, list[DataFile], list[pl.Series]]] = {}
    for section in plan.sections:
        for file, live in zip(section.files, scan_masks(plan, section, store)):
            shape = (*_find_shape(file), section.partition, live is None)
            _, files, known = scans.setdefault(shape, (section, [], []))
            files.append(file)
            if live is not None:
                known.append(live)
    for section, files, known in scans.values():
        # DuckDB tests conditions that may fail only as deep as they are written: write them below the mask.
        read = _select_filtered(plan, section, files, fields, store, bare=bare, positions=bool(known))
        names = ", ".join(f"filtered.{quote_identifier(field.name)}" for field in fields) or "NULL"
        yield f"SELECT {names} FROM ({read}) AS filtered {masks.join(known)}" if known else read


def _select_filtered(
    plan: ScanPlan,
    section: Section,
    files: Sequence[DataFile],
    fields: Sequence[t.DataField],
    store: FileStore,
    *,
    bare: bool,
    positions: bool,
) -> str:
    """Return the rows of files of one shape for which the plan's filter is true.

    DuckDB decodes the other columns for these rows only, if the condition is on columns of the files.
    """
    where = _build_where(plan)
    tested = find_columns(plan.filter.predicate).union(*(residual.columns for residual in plan.filter.residuals))
    written = {field.id: field for field in list_written_fields(plan, files[0])}
    stored = where and all(
        name not in plan.schema.partition_keys
        and build_file_column(written.get(field.id), field, bare) == quote_identifier(name)
        for name, field in plan.schema.by_name.items()
        if name in tested
    )
    read = _select_files(plan, section, files, fields, store, bare=bare, positions=positions)
    if stored:
        return f"{read}{where}"
    return f"SELECT * FROM ({read}) AS live{where}" if where else read


def _select_merged(plan: ScanPlan, section: Section, fields: Sequence[t.DataField], store: FileStore) -> str:
    spec = plan.merge
    if spec is None or spec.keeps_retractions:
        raise Unsupported("this merge as SQL", where=plan.table)
    ordering = [plan.schema.by_name[name] for name in (*spec.key, *plan.schema.primary_keys, *spec.sequence)]
    for field in ordering:
        if isinstance(field.type, REALS):
            raise Unsupported(
                f"versions of keys in the order of {field.name!r}, which is {field.type.text()}, as SQL,",
                where=plan.table,
                hint=NO_SIGNED_ZEROS,
            )
    for field in plan.schema.fields if spec.folds else ():
        # DuckDB aggregates values of types other than DOUBLE by their rank in an order.
        if has_reals(field.type) and not isinstance(field.type, t.DoubleType):
            raise Unsupported(
                f"the merge of {field.name}, which is {field.type.text()}, as SQL,",
                where=plan.table,
                hint=NO_SIGNED_ZEROS,
            )
    for column in spec.columns:
        if column.call is not None and column.call.distinct:
            raise Unsupported(
                f"the merge of {column.name}: {column.call}, as SQL,", where=plan.table, hint=NO_HASH_ORDER
            )
    retractions = any(file.may_hold_retractions for file in section.files)
    query = merge_query(spec, plan.schema.fields, relation=VERSIONS, retractions=retractions)
    if not query.runnable:
        raise Unsupported(f"the merge of {'; '.join(query.left_out)}, as SQL,", where=plan.table)
    versions = _select_versions(plan, spec, section, store)
    names = ", ".join(quote_identifier(field.name) for field in fields) or "*"
    relation = quote_identifier(VERSIONS)
    return f"SELECT {names} FROM (\nWITH {relation} AS (\n{versions}\n)\nSELECT * FROM (\n{query.text}\n) AS merged\n)"


def _select_versions(plan: ScanPlan, spec: MergeSpec, section: Section, store: FileStore) -> str:
    """Return the rows of all files of the section that the merge counts, with sequence numbers and kinds."""
    conditions = [None if f.deletion is None else _build_live_condition(f, store) for f in section.files]
    selects = [
        _select_files(plan, section, [file], plan.schema.fields, store, versions=True, condition=condition)
        for file, condition in zip(section.files, conditions)
    ]
    if not spec.looks_up or len({file.level for file in section.files if file.level > 0}) < 2:
        return UNION.join(selects)
    # Above level 0 a key counts in its lowest level alone: higher levels are already merged into that row.
    level = quote_identifier(Names(plan.schema.by_name).fresh(LEVEL))
    leveled = UNION.join(
        f"SELECT *, {file.level} AS {level} FROM ({select})" for file, select in zip(section.files, selects)
    )
    key = ", ".join(map(quote_identifier, spec.key))
    lowest = f"min({level}) FILTER ({level} > 0) OVER (PARTITION BY {key})"
    return f"SELECT * EXCLUDE ({level}) FROM (\n{leveled}\n)\nQUALIFY {level} = 0 OR {level} = {lowest}"


# Files


def _select_files(
    plan: ScanPlan,
    section: Section,
    files: Sequence[DataFile],
    fields: Sequence[t.DataField],
    store: FileStore,
    *,
    versions: bool = False,
    bare: bool = False,
    condition: str | None = None,
    positions: bool = False,
) -> str:
    """Return the rows of files of one shape, as they are stored, with the numbers of files and rows if `positions`.

    `condition`: a condition on `POSITION`.
    """
    first = files[0]
    if first.format != PARQUET:
        raise Unsupported(f"files of the format {first.format} as SQL", where=plan.table)
    constants = dict(zip(plan.schema.partition_keys, section.partition))
    written = {field.id: field for field in list_written_fields(plan, first)}
    items = []
    for field in fields:
        if field.name in constants:
            value, kind = constants[field.name], to_duckdb_type(field)
            assert not isinstance(value, np.datetime64)  # of timestamps with nanoseconds
            expression = "NULL" if value is None else quote_literal(value, field.type)
            expression = f"CAST({expression} AS {kind})"
        else:
            expression = build_file_column(written.get(field.id), field, bare)
        name = quote_identifier(field.name)
        items.append(name if expression == name else f"{expression} AS {name}")
    if versions:
        number = quote_identifier(SEQUENCE_NUMBER)
        snapshot = first.snapshot_id if plan.merge is not None and plan.merge.by_snapshot else None
        items += [number if snapshot is None else f"{snapshot}::BIGINT AS {number}", quote_identifier(VALUE_KIND)]
    numbers = [POSITION, FILE] if positions else [] if condition is None else [POSITION]
    taken = {field.name.casefold() for field in (*written.values(), *(fields if positions else ()))}
    for name in numbers:
        if name in taken:
            raise Unsupported(f"a column {name!r} beside deletion vectors, as SQL,", where=plan.table)
    items += numbers if positions else []
    paths = ", ".join(quote_path(file.path if store.is_local else store.url(file.path)) for file in files)
    # Settings of the session could turn bytes into text, and escapes in that text into bytes.
    numbered = f", {POSITION} = true" if numbers else ""
    options = f"hive_partitioning = false, binary_as_string = false{numbered}"
    where = "" if condition is None else f" WHERE {condition}"
    return f"SELECT {', '.join(items) or 'NULL'} FROM read_parquet([{paths}], {options}){where}"


def _build_live_condition(file: DataFile, store: FileStore) -> str:
    """Return the condition that the deletion vector does not contain a row."""
    live = read_deletion(file, store).to_numpy()
    dead = np.flatnonzero(~live)
    if len(dead) <= MAX_LISTED_POSITIONS:
        return f"{POSITION} NOT IN ({', '.join(map(str, dead))})" if len(dead) else "true"
    bits = (live + ord("0")).astype(np.uint8).tobytes().decode("ascii")
    return f"get_bit('{bits}'::BIT, {POSITION}::INTEGER) = 1"


FILE = "file_index"
"""DuckDB's column of file numbers."""


class MaskTable:
    """Masks that a statement reads: a relation of the name `relation`, with a row for each file that has dead rows.

    The columns are the numbers of a scan and of a file in it, and the bits of the file's rows, the first bit highest.
    """

    def __init__(self, relation: str) -> None:
        self.relation = relation
        self._bits: list[list[bytes]] = []

    @property
    def rows(self) -> pa.Table:
        """The relation."""
        scans = [number for number, files in enumerate(self._bits) for _ in files]
        files = [number for files in self._bits for number in range(len(files))]
        return pa.table(
            {
                "scan": pa.array(scans, pa.int32()),
                "file": pa.array(files, pa.uint64()),
                "live": pa.array([bits for files in self._bits for bits in files], pa.large_binary()),
            }
        )

    def join(self, masks: Sequence[pl.Series]) -> str:
        """Add the masks of the files of a scan; return the clauses that keep the live rows of the scan ``filtered``."""
        own = f"SELECT file, live::BIT AS live FROM {self.relation} WHERE scan = {len(self._bits)}"
        self._bits.append([np.packbits(mask.to_numpy()).tobytes() for mask in masks])
        live = f"get_bit(masks.live, filtered.{POSITION}::INTEGER) = 1"
        return f"JOIN ({own}) AS masks ON masks.file = filtered.{FILE} WHERE {live}"


MAX_SECOND_DIGITS = 6
"""Maximum fractional digits of timestamps; DuckDB reads timestamps with more digits in microseconds."""
REFUSED_TYPES = (t.VariantType, t.BlobType, t.MultisetType)
TEXTS = (t.CharType, t.VarCharType, t.BinaryType, t.VarBinaryType)


def to_duckdb_type(field: t.DataField) -> str:
    """Return DuckDB's name of a column's type. Raises `Unsupported` if DuckDB lacks the type."""
    _check(field.type, field.name)
    return name_type(field.type)


def _check(kind: t.DataType, name: str) -> None:
    if isinstance(kind, REFUSED_TYPES):
        raise Unsupported(f"the type {kind.text()} of the column {name!r} as SQL")
    if isinstance(kind, (t.TimestampType, t.LocalZonedTimestampType)) and kind.precision > MAX_SECOND_DIGITS:
        raise Unsupported(f"the type {kind.text()} of the column {name!r} as SQL", hint="DuckDB reads microseconds")
    for inner in list_inner_types(kind):
        _check(inner, name)


def build_file_column(stored: t.DataField | None, field: t.DataField, bare: bool) -> str:
    """Return the SQL of a file's column as a column of the plan: columns that are newer than the file are null.

    `bare`: omit a cast to the type that the column has already; see `build_plain_sql`.
    """
    kind = to_duckdb_type(field)
    if stored is None:
        return f"CAST(NULL AS {kind})"
    _check(stored.type, field.name)
    given, wanted = stored.type.with_nullable(True), field.type.with_nullable(True)
    if given != wanted and not any(allows(given, wanted) for allows in CASTS):
        raise Unsupported(f"values of {field.name!r}, stored as {given.text()}, as {wanted.text()} in SQL")
    name = quote_identifier(stored.name)
    # Files hold vectors as lists.
    value = name if bare and given == wanted and not t.has_type(wanted, t.VectorType) else f"CAST({name} AS {kind})"
    if not has_reals(wanted) and not _has_null_text(stored.type):
        return value
    return _hide_statistics(value, wanted)


def _has_null_text(kind: t.DataType, nullable: bool = False) -> bool:
    """Return whether a value or one of its members is nullable text or bytes.

    If DuckDB 2.0 tests for null while reading, it misreads a page without a dictionary that holds one text and nulls:
    every value becomes that text, or null.
    """
    nullable = nullable or kind.nullable
    if isinstance(kind, t.RowType):
        return any(_has_null_text(field.type, nullable) for field in kind.fields)
    return nullable and isinstance(kind, TEXTS)


def _hide_statistics(value: str, kind: t.DataType) -> str:
    """Return an expression of the same value for which DuckDB uses no statistics: file statistics leave out NaN.

    The expression reads one column only, so DuckDB tests conditions on it while it reads the file.
    """
    if isinstance(kind, t.ArrayType):
        return f"({value})[:]"
    if isinstance(kind, t.MapType):
        return f"map_from_entries(map_entries({value})[:])"
    return f"CASE WHEN {value} IS NULL THEN NULL ELSE {value} END"


def _is_wider(given: t.DataType, wanted: t.DataType) -> bool:
    order, kinds = t.INTEGER_TYPES, [type(kind) for kind in (given, wanted)]
    return all(kind in order for kind in kinds) and order.index(kinds[0]) < order.index(kinds[1])


def _is_longer(given: t.DataType, wanted: t.DataType) -> bool:
    for kinds in ((t.VarCharType,), (t.VarBinaryType,)):
        if isinstance(given, kinds) and isinstance(wanted, kinds):
            return bool(given.length <= wanted.length)
    return False


def _is_more_precise(given: t.DataType, wanted: t.DataType) -> bool:
    if not isinstance(given, t.DecimalType) or not isinstance(wanted, t.DecimalType):
        return False
    return given.scale == wanted.scale and given.precision <= wanted.precision


CASTS: Sequence[Callable[[t.DataType, t.DataType], bool]] = (
    _is_wider,
    _is_longer,
    _is_more_precise,
    lambda given, wanted: isinstance(given, t.FloatType) and isinstance(wanted, t.DoubleType),
    lambda given, wanted: type(given) in t.INTEGER_TYPES[:3] and isinstance(wanted, t.DoubleType),
)
"""Whether DuckDB casts as Paimon does, without an error for any value."""


def bind_plain_sql(
    plan: ScanPlan, store: FileStore, run: RunQuery, masks: str | None = None
) -> tuple[str, Mapping[str, pa.Table]] | None:
    """Return a statement of `build_plain_sql` that DuckDB binds, and its relations by name.

    Returns None if SQL cannot express the plan, if DuckDB rejects the files' metadata, or if DuckDB finds bytes instead
    of text in a file, which its casts would write with escapes (``\\xC3``). Morrow's own reader then reports which file
    is wrong.

    `run`: returns a query over relations. `masks`: the name of the relation of masks; see `MaskTable`.

    Raises:
        CorruptFile, FileMissing, UnsafePath: a file is gone, has another size than metadata says, or lies elsewhere.
    """
    row = None if masks is None else MaskTable(masks)
    try:
        short = build_plain_sql(plan, store, bare=True, masks=row)
        columns = ", ".join(f"CAST(NULL AS {to_duckdb_type(plan.schema.by_name[name])})" for name in plan.columns)
        wanted = _describe_types(run, f"SELECT {columns}", {})
    except Unsupported:
        return None
    for part in plan.parts:
        for file in part.files:
            make_source(file, part, store)
    relations = {row.relation: row.rows} if row is not None and row.rows.num_rows else {}
    found = _describe_types(run, short, relations)
    if found == wanted:
        return short, relations
    whole = build_plain_sql(plan, store, masks=None if masks is None else MaskTable(masks))
    wanted = _describe_types(run, whole, relations)
    if wanted is None or (found is not None and _has_escapes(found, wanted)):
        return None
    return whole, relations


def _has_escapes(found: Sequence[str], wanted: Sequence[str]) -> bool:
    return any(one.count(BLOB_TYPE) != other.count(BLOB_TYPE) for one, other in zip(found, wanted))


def _describe_types(run: RunQuery, text: str, relations: Mapping[str, pa.Table]) -> list[str] | None:
    import duckdb

    try:
        return list(map(str, run(text, relations).types))
    except duckdb.Error:
        return None


def read_filtered_rows(plan: ScanPlan, store: FileStore, most_bytes: float) -> list[pl.DataFrame] | None:
    """Return the rows of a plan, without keys whose versions are combined, filtered by DuckDB before masks are applied.

    Returns None if SQL cannot express the plan, if the rows have more than `most_bytes` bytes, or if DuckDB fails:
    the condition may have failed on a row that masks leave out.
    """
    schema = t.to_arrow_schema(plan.fields)
    cursor = open_session(reads_files=True).cursor()
    failures: tuple[type[Exception], ...] = (*query_errors(), Unsupported)

    def run(text: str, relations: Mapping[str, pa.Table]) -> duckdb.DuckDBPyRelation:
        for name, rows in relations.items():
            cursor.register(name, rows)
        return cursor.sql(text)

    batches: list[pa.RecordBatch] = []
    try:
        check_duckdb()
        bound = bind_plain_sql(plan, store, run, "masks")
        if bound is None:
            return None
        for batch in read_stream(cursor, run(*bound).to_arrow_reader(MAX_FILTERED_BATCH_ROWS)):
            batches.append(batch)
            most_bytes -= batch.nbytes
            if most_bytes < 0:
                return None
        rows = pa.Table.from_batches(batches, schema=None if batches else schema).cast(schema)
        return [to_frame(rows, plan.fields)]
    except failures:
        return None
    finally:
        cursor.close()


IO_ERRORS = ("IO Error", "Out of Memory Error")
"""Prefixes of stream error messages that are caused by the machine: Arrow does not preserve the error class."""


def read_batches_by_duckdb(plan: ScanPlan, store: FileStore, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a plan, with exactly its columns and types.

    Raises:
        Unsupported: SQL cannot express the plan, the table is not on the local disk, or the process was forked.
        FileMissing, CorruptFile, SnapshotExpired: a file cannot be read. StorageError: as DuckDB reports it.
    """
    return refuse_in_fork(_to_batches(plan, store, batch_rows))


def _to_batches(plan: ScanPlan, store: FileStore, batch_rows: int) -> Iterator[pa.RecordBatch]:
    schema = t.to_arrow_schema(plan.fields)
    text = _build_statement(plan, store)
    with _open_connection(plan, store) as connection:
        stream = run_query(connection, lambda: connection.sql(text).to_arrow_reader(batch_rows))
        for batch in read_stream(connection, stream):
            yield from pa.Table.from_batches([batch]).cast(schema).to_batches()


def count_by_duckdb(plan: ScanPlan, store: FileStore) -> int:
    """Return the number of rows of a plan. Raises as `read_batches_by_duckdb`."""
    text = _build_statement(plan, store)
    with _open_connection(plan, store) as connection:
        counted = connection.sql(f"SELECT count(*) FROM (\n{text}\n)")
        return int(run_query(connection, counted.fetchall)[0][0])


def _build_statement(plan: ScanPlan, store: FileStore) -> str:
    if not store.is_local:
        raise Unsupported("a read of an object store by DuckDB's engine", where=plan.table)
    return build_plain_sql(plan, store)


@contextmanager
def _open_connection(plan: ScanPlan, store: FileStore) -> Iterator[duckdb.DuckDBPyConnection]:
    import duckdb

    check_duckdb()
    with TemporaryDirectory(prefix="morrow-duckdb-") as folder, guard_read(plan, store):
        settings = {"temp_directory": folder, "python_enable_replacements": "false"}
        connection = duckdb.connect(":memory:", config=dict(settings))
        try:
            connection.execute("SET TimeZone = 'UTC'")
            yield connection
        except query_errors() as error:
            if isinstance(error, MorrowError):
                raise
            if not isinstance(error, _list_statement_errors()):
                _check_files(plan, store)
            if isinstance(error, duckdb.OperationalError) or str(error).startswith(IO_ERRORS):
                raise StorageError(f"{plan.table}: DuckDB cannot read it: {get_first_line(error)}") from error
            raise Unsupported(f"this read by DuckDB ({get_first_line(error)})", where=plan.table) from error
        finally:
            connection.close()


def _list_statement_errors() -> tuple[type[Exception], ...]:
    """Return the errors of DuckDB that are not caused by a file."""
    import duckdb

    return (
        *(duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException, duckdb.DataError),
        *(duckdb.NotSupportedError, duckdb.OutOfMemoryException, duckdb.InterruptException),
    )


def _check_files(plan: ScanPlan, store: FileStore) -> None:
    """Raise the error of the first file that cannot be read: DuckDB does not always name it."""
    for part in plan.parts:
        for section in part.sections:
            for file in section.files:
                make_source(file, part, store)
    for part in plan.parts:
        fail_alone(part, part.sections, tuple(part.schema.by_name[name] for name in part.read_columns), store)
