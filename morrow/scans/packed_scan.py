"""Scans of ``$binlog``, and of changes as ``$audit_log`` and ``$binlog``: rows are produced as record batches only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from morrow.engine.format.row_kinds import NAMES, UPDATE_BEFORE
from morrow.engine.format.schema import ROWKIND
from morrow.engine.format.types import DataField, arrow_schema
from morrow.engine.names import cols
from morrow.engine.plan.filter import Filter, FilterLike
from morrow.engine.plan.predicate import ALWAYS, conjunction, conjuncts
from morrow.engine.plan.predicate import columns as columns_of
from morrow.engine.values import replace
from morrow.scans.system_scan import Asked, SystemScan
from morrow.scans.table_scan import Scan

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    from morrow.scans.changes import Changes


class StreamedScan(SystemScan):
    """A system scan whose rows are produced as record batches; the other forms are made of these."""

    def to_polars(self) -> pl.DataFrame:
        return self.lazy().collect()

    def lazy(self) -> pl.LazyFrame:
        import polars as pl

        from morrow.readers.casts.dtypes import polars_schema, to_frame

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

        return pl.io.plugins.register_io_source(frames, schema=polars_schema(self._asked.shown))

    def count(self) -> int:
        return sum(map(len, self.to_batches()))

    def _finished(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields batches without the columns that only the filter reads, up to the limit."""
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
        """The filter's conditions on plain columns, which are not arrays, and its other conditions."""
        from morrow.readers.system.binlog import PLAIN

        whole, plain = self._asked.filter, frozenset(field.name for field in PLAIN)
        known = [part for part in conjuncts(whole.predicate) if part != ALWAYS]
        sides = []
        for side in (True, False):
            parts = [part for part in known if (columns_of(part) <= plain) is side]
            residuals = tuple(part for part in whole.residuals if (part.columns <= plain) is side)
            names = [columns_of(part) for part in parts] + [part.columns for part in residuals]
            text = " AND ".join(str(part) for part in (*parts, *residuals))
            sides.append(Filter(conjunction(*parts), residuals, frozenset().union(*names), text))
        return sides[0], sides[1]

    @property
    def _read(self) -> tuple[DataField, ...]:
        """Output columns, and those that the other conditions need."""
        return replace(self._asked, filter=self._parts[1]).read

    @cached_property
    def _inner(self) -> Scan:
        pushed, rest = self._parts
        limit = self._asked.limit if not rest.columns and not rest.residuals else None
        return self._everything.asking(tuple(field.name for field in self._read), pushed, limit)

    @property
    def unpacked(self) -> Scan | None:
        """The scan whose rows, with each value in an array, are this scan's; None if the filter looks into arrays."""
        rest = self._parts[1]
        return None if rest.columns or rest.residuals else self._inner

    def prepare(self) -> None:
        self._inner.prepare()

    def to_batches(self, batch_rows: int | None = None) -> Iterator[pa.RecordBatch]:
        from morrow.readers.expressions.arrow import matching
        from morrow.readers.system.binlog import packed

        rest = self._parts[1]
        batches = (packed(rows, self._read) for rows in self._inner.to_batches(batch_rows))
        return self._finished(matching(rest, self._read, batch) for batch in batches)

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

        from morrow.readers.expressions.arrow import matching
        from morrow.readers.system.binlog import packed, with_whole_pairs

        read = self._asked.read
        batches = self._inner.to_batches(batch_rows)
        if self._inner.compares and not self._packed:  # Paimon's difference has one row of a key
            batches = (rows.filter(pc.not_equal(rows[ROWKIND], NAMES[UPDATE_BEFORE])) for rows in batches)
        if self._packed:
            batches = (packed(rows, read, pairs=True) for rows in with_whole_pairs(batches))
        else:
            # The row kind is not nullable in changes, but nullable in this table.
            batches = (rows.select([field.name for field in read]).cast(arrow_schema(read)) for rows in batches)
        return self._finished(matching(self._asked.filter, read, batch) for batch in batches)

    def narrowed(self, columns: Sequence[str] | None = None, filter: FilterLike | None = None) -> ChangesScan:
        return ChangesScan(self._asked.narrowed(columns, filter), self._changes, packed=self._packed)
