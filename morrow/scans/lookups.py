"""Rows by primary key (`Table.get`, `Table.get_many`), by the nearest vectors and by words (`Table.search`).

A lookup is a scan with a filter on the primary key. `morrow.readers.execution.lookups` reads such a scan from the row
groups that may hold the keys.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
import numpy as np

from morrow.engine.arguments import MAX_ROWS, check_instance, check_mapping
from morrow.engine.errors import ColumnNotFound, InvalidArgument
from morrow.engine.format.schema import ROW_ID, TableSchema
from morrow.engine.format.types import DataField, DoubleType, FloatType
from morrow.engine.io.store import FileStore
from morrow.engine.names import SCORE, clear_pattern_name, col, cols, get_series, join_by_names, reserve_name
from morrow.engine.options.declarations import parse_whole
from morrow.engine.plan.filter import Filter, FilterLike
from morrow.engine.plan.filter.literals import build_comparison
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.predicate import Leaf, Op, Predicate, combine_predicates, find_columns
from morrow.engine.plan.time_travel import NOW, Travel
from morrow.engine.redaction import format_columns
from morrow.scans.arguments import check_columns
from morrow.scans.table_scan import Scan, make_scan

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

MissingRows: TypeAlias = Literal["null", "skip", "error"]
"""What `Table.get_many` returns for a key without a row."""
MISSING_ROWS = ("null", "skip", "error")

FLOATS = (FloatType, DoubleType)
TURN_SECONDS = 0.1
"""Seconds that a lookup waits for its turn. Python runs one thread at a time, so threads that take turns answer 1.6
times as many lookups as threads that interrupt each other. A lookup on a slow disk holds up others for this time."""
_TURN = Lock()
NUMBER, PRESENT, EXACT, STORED = map(reserve_name, ("number", "present", "exact", "stored"))


def get_row(
    metadata: TableMetadata, key: object, columns: Sequence[str] | None, travel: Travel
) -> dict[str, Any] | None:
    """Return the row with this primary key, None if there is none; see `Table.get`."""
    with _take_turn(metadata.store):
        return _look_up(metadata, key, columns, travel)


@contextmanager
def _take_turn(store: FileStore) -> Iterator[None]:
    """Wait for the lookups of other threads on a local disk, for `TURN_SECONDS` at most."""
    is_taken = store.is_local and _TURN.acquire(timeout=TURN_SECONDS)
    try:
        yield
    finally:
        if is_taken:
            _TURN.release()


def _look_up(
    metadata: TableMetadata, key: object, columns: Sequence[str] | None, travel: Travel
) -> dict[str, Any] | None:
    scan = make_scan(metadata, columns=columns, travel=travel)
    names = scan.request.columns
    fields = list_key_fields(scan.request.schema, metadata.where)
    values = [
        each.item() if isinstance(each, np.generic) else each for each in _match_values(key, fields, metadata.where)
    ]
    if any(getattr(value, "nanosecond", 0) for value in values):  # of pandas; predicates have microseconds
        frame = get_rows(metadata, {field.name: [value] for field, value in zip(fields, values)}, names, "skip", travel)
        return _to_dicts(frame, scan.fields)[0] if frame.height else None
    floats = [field.name for field in fields if isinstance(field.type, FLOATS)]
    read = tuple(dict.fromkeys((*names, *floats)))
    keyed = _scan_keys(scan, list(map(_pin, fields, values)), read)
    found = _to_dicts(keyed.to_polars(), keyed.fields)
    if len(found) > 1:  # 0.0 and -0.0 may be in different buckets; they are equal, and differ as text
        asked = {field.name: str(value) for field, value in zip(fields, values)}
        found = [row for row in found if all(str(row[name]) == asked[name] for name in floats)] or found
    if len(found) > 1:
        raise _make_ambiguity_error(metadata, dict(zip((field.name for field in fields), values)))
    return {name: found[0][name] for name in names} if found else None


def _to_dicts(frame: pl.DataFrame, fields: Sequence[DataField]) -> list[dict[str, Any]]:
    """Return the rows as dicts of Polars' values, but with nanoseconds, which `datetime` lacks."""
    rows = frame.rows(named=True)
    exact = [field for field in fields if _has_nanoseconds(field.type.arrow())] if rows else []
    if exact:
        from morrow.readers.casts.dtypes import to_arrow_table
        from morrow.variant import to_values

        table = to_arrow_table(frame, exact)
        for field in exact:
            for row, value in zip(rows, to_values(table[field.name], field.type)):
                row[field.name] = value
    return rows


def _has_nanoseconds(kind: pa.DataType) -> bool:
    if getattr(kind, "unit", None) == "ns":
        return True
    return any(_has_nanoseconds(kind.field(i).type) for i in range(kind.num_fields))


def get_rows(
    metadata: TableMetadata, keys: object, columns: Sequence[str] | None, missing: MissingRows, travel: Travel
) -> pl.DataFrame:
    """Return the rows with these primary keys in the order of the keys; see `Table.get_many`."""
    import polars as pl

    from morrow.writers.ingest.conversion import convert_columns

    if missing not in MISSING_ROWS:
        raise InvalidArgument(f"missing is one of {', '.join(map(repr, MISSING_ROWS))}, not {missing!r}")
    scan = make_scan(metadata, columns=columns, travel=travel)
    names = scan.request.columns
    fields = list_key_fields(scan.request.schema, metadata.where)
    by = [field.name for field in fields]
    asked = convert_columns(keys, fields, metadata.where).with_row_index(NUMBER)
    wanted = asked.drop_nulls()
    conditions = [each for name in by for each in _pin_each(get_series(wanted, name).unique().alias(name))]
    rows = _scan_keys(scan, conditions, tuple(dict.fromkeys((*names, *by)))).to_polars()
    # 0.0 and -0.0 join, but may be the keys of two rows in different buckets: their reciprocals differ.
    floats = [name for name in by if get_series(asked, name).dtype.is_float()]
    rows = rows.with_columns(
        pl.lit(True).alias(PRESENT), *((1 / col(name)).alias(f"{STORED}{name}") for name in floats)
    )
    found = join_by_names(asked, rows, by, how="left", maintain_order="left")
    if floats and found.height > asked.height:
        exact = pl.all_horizontal((1 / col(name)) == col(f"{STORED}{name}") for name in floats)
        found = found.with_columns(exact.alias(EXACT))
        found = found.filter(col(EXACT).eq_missing(col(EXACT).max().over(NUMBER)))
    if found.height > asked.height:
        key = found.filter(col(NUMBER).is_duplicated()).select(cols(by)).row(0, named=True)
        raise _make_ambiguity_error(metadata, key)
    absent = found[PRESENT].is_null()
    if missing == "error" and absent.any():
        first = found.filter(absent).select(cols(by)).row(0, named=True)
        raise InvalidArgument(
            f"{metadata.where}: {int(absent.sum())} of {asked.height} keys have no row, the first is {first}; leave "
            'them out, or pass missing="null"'
        )
    return (found.filter(~absent) if missing == "skip" else found).select(cols(names))


def _make_ambiguity_error(metadata: TableMetadata, key: Mapping[str, object]) -> InvalidArgument:
    """Make the error for a key of several rows: with fixed buckets, each partition may have a row of it."""
    return InvalidArgument(
        f"{metadata.where}: several partitions have a row with the key {dict(key)}, since the primary key does not "
        "include the partition columns; use scan(filter=...) with values of these"
    )


def list_key_fields(schema: TableSchema, where: str) -> list[DataField]:
    """Return the columns of the primary key. Raises `InvalidArgument` if the table has none."""
    if not schema.primary_keys:
        raise InvalidArgument(f"{where}: it has no primary key; use scan(filter=...)")
    return [schema.by_name[name] for name in schema.primary_keys]


def _match_values(key: object, fields: Sequence[DataField], where: str) -> list[Any]:
    """Return the value of each key column, from a scalar, a sequence in the order of the key, or a mapping."""
    names = [field.name for field in fields]
    if isinstance(key, Mapping):
        unknown = [name for name in key if name not in names]
        if unknown:
            raise ColumnNotFound(f"{where}: {unknown[0]!r} is not a column of the primary key; {format_columns(names)}")
        absent = [name for name in names if name not in key]
        if absent:
            raise InvalidArgument(f"{where}: the key lacks {', '.join(map(repr, absent))}; {format_columns(names)}")
        return [key[name] for name in names]
    values = list(key) if isinstance(key, (tuple, list)) else [key]
    if len(values) != len(names):
        raise InvalidArgument(f"{where}: the key has {len(values)} values, not {len(names)}; {format_columns(names)}")
    return values


def _pin(field: DataField, value: Any) -> Predicate:
    """Return ``field = value``. Raises `InvalidArgument` if the value is null or of another type."""
    found = None if value is None else build_comparison(field, Op.EQ, value)
    if found is None:
        raise InvalidArgument(
            f"the key column {field.name!r} is {field.type}, and {value!r} is {type(value).__name__}; "
            "give a value of its type"
        )
    return found


def _pin_each(values: pl.Series) -> Sequence[Predicate]:
    """Return conditions on a column that are true for these values, and exact unless these are nanoseconds."""
    name, found = values.name, clear_pattern_name(values).to_list()
    if getattr(values.dtype, "time_unit", None) != "ns" or not found:
        return [Leaf(name, Op.IN, tuple(found))]
    return [Leaf(name, Op.GE, (min(found),)), Leaf(name, Op.LE, (max(found) + dt.timedelta(microseconds=1),))]


def _scan_keys(scan: Scan, conditions: Sequence[Predicate], columns: tuple[str, ...]) -> Scan:
    predicate = combine_predicates(*conditions)
    return scan.asking(columns, Filter(predicate, (), find_columns(predicate), "rows of given keys"), None)


MAX_BATCH_BYTES = 32 << 20
"""Approximate maximum of the bytes of vectors in a batch, in 64-bit numbers."""

MAX_FETCHED_ROWS = 1000
"""Maximum number of rows whose other columns are read after a search. More rows are searched with all columns."""


class SearchRequest(msgspec.Struct, frozen=True):
    """The arguments that `Table.search` and `Table.search_text` share. `columns` are None for all."""

    column: str
    k: object
    filter: FilterLike | None = None
    columns: Sequence[str] | None = None
    travel: Travel = NOW


class _Prepared(msgspec.Struct, frozen=True):
    """A checked search: a scan of the output columns and the searched one."""

    scan: Scan
    wanted: tuple[str, ...]
    field: DataField
    k: int

    @property
    def tracked(self) -> Scan:
        """The scan, with row ids if the table has them."""
        return self.scan if ROW_ID in self.scan.request.columns else self.scan.with_tracked_columns((ROW_ID,))


def _prepare_search(metadata: TableMetadata, asked: SearchRequest) -> _Prepared:
    k = asked.k
    limit = k if isinstance(k, int) and not isinstance(k, bool) else parse_whole(str(k))
    if limit is None or not 1 <= limit <= MAX_ROWS:
        raise InvalidArgument(f"the number of rows of a search must be 1 or more, not {k!r}")
    scan = make_scan(metadata, filter=asked.filter, travel=asked.travel)
    wanted = tuple(field.name for field in scan.fields) if asked.columns is None else check_columns(asked.columns)
    if ROW_ID in wanted:
        scan = scan.with_tracked_columns((ROW_ID,))
    read = scan.narrowed(tuple(dict.fromkeys((*wanted, asked.column))))
    if SCORE in wanted:
        raise InvalidArgument(f"{scan.title}: the column {SCORE!r} has the name of the score; rename it")
    return _Prepared(read, wanted, next(each for each in read.fields if each.name == asked.column), limit)


def plan_search(
    metadata: TableMetadata,
    asked: SearchRequest,
    query: object,
    metric: str = "l2",
    *,
    exact: bool = True,
    options: Mapping[str, object] | None = None,
) -> tuple[Scan, Callable[[], pa.Table]]:
    """Return the scan whose rows a search for vectors scores, and a function that returns its result.

    Raises: as `Table.search`.
    """
    from morrow.readers.execution import row_search

    name, given = row_search.check_metric(metric), check_mapping(options, "options")
    if check_instance(exact, bool, "exact") and given:
        raise InvalidArgument(f"the options {', '.join(given)} are for searches in an index; pass exact=False")
    known = row_search.parse_index_options(given)
    prepared = _prepare_search(metadata, asked)
    field, tracked = prepared.field, prepared.tracked
    vector = row_search.check_query(query, field)
    plan = tracked.plan
    if not exact:
        plan = row_search.narrow_to_candidates(
            tracked._metadata, tracked.request.options, plan, field, vector, prepared.k, name, known
        )
    scan = Scan(tracked._metadata, tracked.request, plan)

    def run() -> pa.Table:
        names = scan.request.columns
        is_late = ROW_ID in names and prepared.k <= MAX_FETCHED_ROWS and len(names) > 2
        read = scan.narrowed((field.name, ROW_ID)) if is_late else scan
        batches = read.to_batches(max(MAX_BATCH_BYTES // (8 * len(vector)), 1))
        found = row_search.find_nearest(batches, read.schema, field, vector, prepared.k, name)
        if is_late:
            found = row_search.fetch_columns(scan._metadata, tracked.plan, scan.schema, found)
        return found.select([*prepared.wanted, SCORE])

    return scan.narrowed(prepared.scan.request.columns), run


def search_texts(metadata: TableMetadata, asked: SearchRequest, query: object) -> pa.Table:
    """Return the rows of a search for words as an Arrow table; see `Table.search_text`."""
    from morrow.engine.format.search_indexes import parse_text_query
    from morrow.readers.execution import row_search

    text = parse_text_query(query)
    prepared = _prepare_search(metadata, asked)
    row_search.check_text(prepared.field)
    scan = prepared.tracked
    found = row_search.find_texts(
        scan._metadata, scan.request.options, scan.plan, scan.schema, prepared.field, text, prepared.k
    )
    return found.select([*prepared.wanted, SCORE])


def to_frame(found: pa.Table) -> pl.DataFrame:
    """Return the rows of a search as a Polars DataFrame."""
    import polars as pl

    from morrow.engine.library_versions import import_array

    return pl.DataFrame([import_array(found[name]).alias(name) for name in found.column_names])
