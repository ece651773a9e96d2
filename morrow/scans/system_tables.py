"""Scans of system tables by name: tables of metadata, and the table's rows with their hidden columns.

``$binlog``, and changes in the form of ``$audit_log`` or ``$binlog``, are produced only as record batches.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

from morrow.engine.errors import ColumnNotFound, InvalidArgument
from morrow.engine.format.row_kinds import NAMES, UPDATE_BEFORE
from morrow.engine.format.schema import ROWKIND, SEQUENCE_NUMBER_FIELD
from morrow.engine.format.types import DataField, to_arrow_schema
from morrow.engine.names import cols
from morrow.engine.plan.filter import Filter, FilterLike, combine_filters, parse_filter
from morrow.engine.plan.predicate import ALWAYS, combine_predicates, find_columns, split_conjuncts
from morrow.engine.plan.time_travel import NOW, Travel
from morrow.engine.redaction import PrintedText, clean_text, suggest_name
from morrow.engine.structs import replace
from morrow.scans.arguments import check_batch_rows, check_columns, check_limit
from morrow.scans.result import Rows
from morrow.scans.table_scan import Scan, make_scan

if TYPE_CHECKING:
    import duckdb
    import polars as pl
    import pyarrow as pa
    import pyarrow.compute as pc

    from morrow.engine.catalog.protocol import Catalog
    from morrow.engine.plan.metadata import TableMetadata
    from morrow.readers.execution.datasets import PaimonDataset
    from morrow.readers.system.audit_log import RowTable
    from morrow.readers.system.base import SystemTable
    from morrow.scans.changes import Changes, Mode

__all__ = ["SystemScan", "make_catalog_scan", "make_system_scan"]


def make_catalog_scan(
    catalog: Catalog,
    name: str,
    *,
    columns: Sequence[str] | None = None,
    filter: FilterLike | None = None,
    limit: int | None = None,
) -> SystemScan:
    """Plan a scan of a system table of the catalog; see `Catalog.system`."""
    from morrow.readers.system.catalog_tables import find_catalog_table

    table = find_catalog_table(name)
    asked = Asked.of(f"sys.{table.name}", table.columns, columns, filter, limit)
    return MadeScan(asked, lambda wanted: table.make(catalog).select(wanted))


def make_system_scan(
    metadata: TableMetadata,
    name: str,
    *,
    columns: Sequence[str] | None = None,
    filter: FilterLike | None = None,
    limit: int | None = None,
    travel: Travel = NOW,
    from_snapshot: int | str | None = None,
    to_snapshot: int | str | None = None,
    mode: Mode = "auto",
) -> SystemScan:
    """Plan a scan of a table's system table; see `Table.system`."""
    from morrow.readers.system.audit_log import RowTable
    from morrow.readers.system.base import MetadataTable, TableState
    from morrow.readers.system.registry import find_system_table

    table = find_system_table(name)
    metadata, travel = travel.of_branch(metadata)
    title = f"{metadata.where}${table.name}"
    if from_snapshot is not None or to_snapshot is not None:
        if not travel.is_latest:
            raise InvalidArgument("changes between snapshots are not read as of one: leave out as_of and its like")
        return _make_changes_scan(metadata, table, title, columns, filter, limit, from_snapshot, to_snapshot, mode)
    if isinstance(table, RowTable):
        return _make_row_scan(metadata, table, title, columns, filter, limit, travel)
    if not (travel.is_latest or table.travels):
        raise InvalidArgument(f"{title} tells of all snapshots at once: it is not read as of one")
    assert isinstance(table, MetadataTable)  # there is no third kind
    state = TableState(metadata, travel)
    asked = Asked.of(title, table.fields(state), columns, filter, limit)
    return MadeScan(asked, lambda wanted: table.rows(state, wanted))


def _make_row_scan(
    metadata: TableMetadata,
    table: RowTable,
    title: str,
    columns: Sequence[str] | None,
    filter: FilterLike | None,
    limit: int | None,
    travel: Travel,
) -> SystemScan:
    everything = make_scan(metadata, travel=travel).adapted(lambda request: table.request(request, metadata.where))
    schema, options = everything.request.schema, everything.request.options
    asked = Asked.of(title, table.fields_of(schema, options, metadata.where), columns, filter, limit)
    if table.packed:
        return PackedScan(asked, everything)
    return RowScan(asked, everything.asking(asked.columns, asked.filter, asked.limit))


def _make_changes_scan(
    metadata: TableMetadata,
    table: SystemTable,
    title: str,
    columns: Sequence[str] | None,
    filter: FilterLike | None,
    limit: int | None,
    start: int | str | None,
    end: int | str | None,
    mode: Mode,
) -> SystemScan:
    from morrow.readers.system.audit_log import RowTable
    from morrow.scans.changes import make_changes

    if not isinstance(table, RowTable) or not table.tells_kinds:
        raise InvalidArgument(f"{title} has no changes: from_snapshot and to_snapshot are for audit_log and binlog")
    schema = metadata.latest_schema()
    fields = table.fields_of(schema, metadata.options(schema), metadata.where)
    if fields[1:2] == (SEQUENCE_NUMBER_FIELD,):
        # A difference of two snapshots does not contain sequence numbers; only files of a snapshot do.
        fields = (fields[0], *fields[2:])
    asked = Asked.of(title, fields, columns, filter, limit)
    changes = partial(make_changes, metadata, start, end, mode=mode, filter=None)
    return ChangesScan(
        asked, lambda names: changes(columns=names, from_timestamp=None, to_timestamp=None), packed=table.packed
    )


MakeRows = Callable[[Sequence[str]], "pl.DataFrame"]
"""A function that builds the rows with the named columns."""


@dataclass(frozen=True)
class Asked:
    """The request for a system table: columns in order, a parsed filter, a limit; `fields` are all its columns."""

    title: str
    fields: tuple[DataField, ...]
    columns: tuple[str, ...]
    filter: Filter
    limit: int | None

    @classmethod
    def of(
        cls,
        title: str,
        fields: tuple[DataField, ...],
        columns: Sequence[str] | None,
        filter: FilterLike | None,
        limit: int | None,
    ) -> Asked:
        """Check a caller's arguments. Raises `ColumnNotFound` or `InvalidArgument` if they are wrong."""
        names = tuple(field.name for field in fields)
        wanted = names if columns is None else check_columns(columns)
        for name in wanted:
            if name not in names:
                raise ColumnNotFound(
                    f"{title} has no column {name!r}; {suggest_name(name, names)}its columns are {', '.join(names)}"
                )
        return cls(title, fields, wanted, parse_filter(filter, fields), check_limit(limit))

    @property
    def by_name(self) -> dict[str, DataField]:
        return {field.name: field for field in self.fields}

    @property
    def shown(self) -> tuple[DataField, ...]:
        """Output columns."""
        return tuple(self.by_name[name] for name in self.columns)

    @property
    def read(self) -> tuple[DataField, ...]:
        """Output columns, and columns that only the filter reads."""
        extra = (f for f in self.fields if f.name in self.filter.columns and f.name not in self.columns)
        return (*self.shown, *extra)

    def narrowed(self, columns: Sequence[str] | None, filter: FilterLike | None) -> Asked:
        """Return a request for fewer columns and rows. Columns and filter refer to the output. Raises as `of`."""
        if self.limit is not None and filter is not None:
            raise InvalidArgument("a scan with a limit cannot be narrowed by a filter")
        inner = Asked.of(self.title, self.shown, columns, filter, self.limit)
        return replace(self, columns=inner.columns, filter=combine_filters(self.filter, inner.filter))


class SystemScan(Rows):
    """A read of a system table: rows as Arrow, Polars, pandas, DuckDB or Spark.

    The snapshot is fixed when the rows are first used. Create a new scan to see later changes.
    """

    def __init__(self, asked: Asked) -> None:
        self._asked = asked

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The columns of the rows, in their Paimon types."""
        return self._asked.shown

    @property
    def title(self) -> str:
        """The path of the table with the name of the system table: ``warehouse/db.db/orders$snapshots``."""
        return self._asked.title

    @abstractmethod
    def prepare(self) -> None:
        """Do the work that needs metadata only: make the plan, or all rows if they consist of metadata."""

    @abstractmethod
    def lazy(self) -> pl.LazyFrame:
        """Return the rows as a Polars LazyFrame."""

    @abstractmethod
    def narrowed(self, columns: Sequence[str] | None = None, filter: FilterLike | None = None) -> SystemScan:
        """Return this scan with fewer columns and rows. Columns and filter refer to this scan's output.

        Raises:
            ColumnNotFound: a column that this scan does not have.
            InvalidArgument: a filter on a scan with a limit, since filtering after the limit differs.
        """

    def dataset(self) -> PaimonDataset:
        """Return the scan as a pyarrow Dataset: columns and filters pushed into it narrow the scan."""
        from morrow.readers.execution.datasets import PaimonDataset

        def read(columns: Sequence[str] | None, filter: pc.Expression | None) -> pa.RecordBatchReader:
            return self.narrowed(columns, filter).to_reader()

        return PaimonDataset(self.schema, read)

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """Return a DuckDB relation on `connection` (DuckDB's default connection when None)."""
        from morrow.readers.execution import duckdb_relation

        # DuckDB would push its filters below the limit, so limited rows are handed over as they are.
        source = self.dataset() if self._asked.limit is None else self.to_arrow()
        return duckdb_relation.make_relation(source, connection)

    def __repr__(self) -> str:
        asked = self._asked
        parts = [repr(asked.title), f"columns={list(asked.columns)}"]
        if asked.filter.text:
            parts.append(f"filter={asked.filter.text!r}")
        if asked.limit is not None:
            parts.append(f"limit={asked.limit}")
        return clean_text(f"SystemScan({', '.join(parts)})")


class MadeScan(SystemScan):
    """A system scan whose rows are built from metadata, all at once."""

    def __init__(self, asked: Asked, make: MakeRows) -> None:
        super().__init__(asked)
        self._make = make

    @cached_property
    def _rows(self) -> pl.DataFrame:
        from morrow.readers.expressions.polars import filter_rows

        asked = self._asked
        made = self._make([field.name for field in asked.read])
        frame = filter_rows(asked.filter, asked.read, made.lazy()).select(cols(asked.columns))
        return (frame if asked.limit is None else frame.head(asked.limit)).collect()

    def prepare(self) -> None:
        _ = self._rows

    def to_polars(self) -> pl.DataFrame:
        return self._rows

    def lazy(self) -> pl.LazyFrame:
        return self._rows.lazy()

    def to_arrow(self) -> pa.Table:
        from morrow.readers.casts.dtypes import to_arrow_table

        return to_arrow_table(self._rows, self._asked.shown)

    def to_batches(self, batch_rows: int | None = None) -> Iterator[pa.RecordBatch]:
        yield from self.to_arrow().to_batches(max_chunksize=check_batch_rows(batch_rows))

    def count(self) -> int:
        return self._rows.height

    def narrowed(self, columns: Sequence[str] | None = None, filter: FilterLike | None = None) -> MadeScan:
        return MadeScan(self._asked.narrowed(columns, filter), self._make)


class RowScan(SystemScan):
    """A system scan that returns the rows of a table scan."""

    def __init__(self, asked: Asked, scan: Scan) -> None:
        super().__init__(asked)
        self._scan = scan

    @property
    def scan(self) -> Scan:
        """The scan of the table."""
        return self._scan

    def prepare(self) -> None:
        self._scan.prepare()

    def to_batches(self, batch_rows: int | None = None) -> Iterator[pa.RecordBatch]:
        return self._scan.to_batches(batch_rows)

    def to_arrow(self) -> pa.Table:
        return self._scan.to_arrow()

    def to_polars(self) -> pl.DataFrame:
        return self._scan.to_polars()

    def lazy(self) -> pl.LazyFrame:
        return self._scan.lazy()

    def count(self) -> int:
        return self._scan.count()

    def dataset(self) -> PaimonDataset:
        return self._scan.dataset()

    def explain(self) -> PrintedText:
        """Explain the read, as `Scan.explain`."""
        return self._scan.explain()

    def narrowed(self, columns: Sequence[str] | None = None, filter: FilterLike | None = None) -> RowScan:
        return RowScan(self._asked.narrowed(columns, filter), self._scan.narrowed(columns, filter))


class StreamedScan(SystemScan):
    """A system scan whose rows are produced as record batches; the other forms are derived from these."""

    def to_polars(self) -> pl.DataFrame:
        return self.lazy().collect()

    def lazy(self) -> pl.LazyFrame:
        from morrow.engine.library_versions import register_source
        from morrow.readers.casts.dtypes import to_frame, to_polars_schema

        def frames(
            columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, batch_rows: int | None
        ) -> Iterator[pl.DataFrame]:
            asked = self._asked if predicate is not None else self._asked.narrowed(columns, None)
            for batch in self.narrowed(asked.columns).to_batches(batch_rows):
                frame = to_frame(batch, asked.shown)
                frame = frame if predicate is None else frame.filter(predicate)
                frame = frame if columns is None else frame.select(cols(columns))
                yield frame if rows is None else frame.head(rows)
                rows = None if rows is None else rows - min(rows, frame.height)
                if rows == 0:
                    return

        return register_source(frames, to_polars_schema(self._asked.shown))

    def count(self) -> int:
        return sum(map(len, self.to_batches()))

    def _finish(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield up to `limit` rows in batches, without the columns that only the filter reads."""
        left = self._asked.limit
        for rows in batches:
            if left == 0:
                return
            batch = rows.select(self._asked.columns)
            batch = batch if left is None else batch.slice(0, left)
            left = None if left is None else left - len(batch)
            yield batch


class PackedScan(StreamedScan):
    """Rows of a scan with their values in arrays; conditions on plain columns narrow the scan."""

    def __init__(self, asked: Asked, everything: Scan) -> None:
        super().__init__(asked)
        self._everything = everything

    @cached_property
    def _parts(self) -> tuple[Filter, Filter]:
        """The filter's conditions on columns that are not arrays, and its other conditions."""
        from morrow.readers.system.audit_log import PLAIN

        whole, plain = self._asked.filter, frozenset(field.name for field in PLAIN)
        known = [part for part in split_conjuncts(whole.predicate) if part != ALWAYS]
        sides = []
        for side in (True, False):
            parts = [part for part in known if (find_columns(part) <= plain) is side]
            residuals = tuple(part for part in whole.residuals if (part.columns <= plain) is side)
            names = [find_columns(part) for part in parts] + [part.columns for part in residuals]
            text = " AND ".join(str(part) for part in (*parts, *residuals))
            sides.append(Filter(combine_predicates(*parts), residuals, frozenset().union(*names), text))
        return sides[0], sides[1]

    @property
    def _read(self) -> tuple[DataField, ...]:
        """Output columns, and columns that the other conditions need."""
        return replace(self._asked, filter=self._parts[1]).read

    @cached_property
    def _inner(self) -> Scan:
        pushed, rest = self._parts
        limit = self._asked.limit if not rest.columns and not rest.residuals else None
        return self._everything.asking(tuple(field.name for field in self._read), pushed, limit)

    @property
    def unpacked(self) -> Scan | None:
        """The scan of the same rows without arrays around the values; None if the filter uses arrays."""
        rest = self._parts[1]
        return None if rest.columns or rest.residuals else self._inner

    def prepare(self) -> None:
        self._inner.prepare()

    def to_batches(self, batch_rows: int | None = None) -> Iterator[pa.RecordBatch]:
        from morrow.readers.expressions.arrow import filter_batch
        from morrow.readers.system.audit_log import pack_rows

        rest = self._parts[1]
        batches = (pack_rows(rows, self._read) for rows in self._inner.to_batches(batch_rows))
        return self._finish(filter_batch(rest, self._read, batch) for batch in batches)

    def count(self) -> int:
        return super().count() if self.unpacked is None else self.unpacked.count()

    def narrowed(self, columns: Sequence[str] | None = None, filter: FilterLike | None = None) -> PackedScan:
        return PackedScan(self._asked.narrowed(columns, filter), self._everything)


class ChangesScan(StreamedScan):
    """Changes between two snapshots as rows of ``$audit_log`` or ``$binlog``."""

    def __init__(self, asked: Asked, changes: Callable[[Sequence[str]], Changes], *, packed: bool) -> None:
        super().__init__(asked)
        self._changes = changes
        self._packed = packed

    @cached_property
    def _inner(self) -> Changes:
        names = [field.name for field in self._asked.fields if field.name != ROWKIND]
        read = [field.name for field in self._asked.read if field.name != ROWKIND]
        return self._changes(read or names[:1])

    def prepare(self) -> None:
        _ = self._inner

    def to_batches(self, batch_rows: int | None = None) -> Iterator[pa.RecordBatch]:
        import pyarrow.compute as pc

        from morrow.readers.expressions.arrow import filter_batch
        from morrow.readers.system.audit_log import align_pairs, pack_rows

        read = self._asked.read
        batches = self._inner.to_batches(batch_rows)
        if self._inner.compares and not self._packed:  # Paimon's difference has one row per key
            batches = (rows.filter(pc.not_equal(rows[ROWKIND], NAMES[UPDATE_BEFORE])) for rows in batches)
        if self._packed:
            batches = (pack_rows(rows, read, pairs=True) for rows in align_pairs(batches))
        else:
            # The row kind is not nullable in changes, but nullable in this table.
            batches = (rows.select([field.name for field in read]).cast(to_arrow_schema(read)) for rows in batches)
        return self._finish(filter_batch(self._asked.filter, read, batch) for batch in batches)

    def narrowed(self, columns: Sequence[str] | None = None, filter: FilterLike | None = None) -> ChangesScan:
        return ChangesScan(self._asked.narrowed(columns, filter), self._changes, packed=self._packed)
