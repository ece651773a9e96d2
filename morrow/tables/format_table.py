"""Format tables and object tables of a catalog: folders of files, without snapshots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from morrow.engine.errors import Unsupported
from morrow.engine.format.types import DataField
from morrow.engine.names import cols
from morrow.engine.plan.filter import FilterLike
from morrow.engine.plan.folder_table import OBJECT_TABLE, FolderTable
from morrow.engine.polars_threads import refuse_in_fork
from morrow.engine.redaction import clean_text
from morrow.scans.arguments import check_batch_rows
from morrow.scans.system_tables import Asked, MadeScan, SystemScan

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    from morrow.readers.execution.format_tables import Part

WITHOUT_SNAPSHOTS = "it is a folder of files; only a table of Paimon's own has snapshots, keys and changes"


class _Folder:
    """The properties shared by format tables and object tables."""

    def __init__(self, table: FolderTable) -> None:
        self._table = table

    @property
    def path(self) -> str:
        """The folder or URL of the files."""
        return self._table.store.url(self._table.root)

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The columns, in their Paimon types."""
        return self._table.fields

    @property
    def comment(self) -> str | None:
        """The comment of the table."""
        return self._table.schema.comment

    @property
    def options(self) -> dict[str, str]:
        """The options of the table."""
        return dict(self._table.schema.options)

    def __getattr__(self, name: str) -> Any:
        from morrow.tables.table import Table

        if name.startswith("_") or not hasattr(Table, name):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        article = "an" if self._table.kind == OBJECT_TABLE else "a"
        raise Unsupported(f"{name} of {article} {self._table.kind}", where=self._table.where, hint=WITHOUT_SNAPSHOTS)

    def __repr__(self) -> str:
        columns = ", ".join(f"{each.name} {each.type}" for each in self.fields)
        return clean_text(f"{type(self).__name__}({self.path!r}, {columns})")


class FormatTable(_Folder):
    """A folder of Parquet, ORC, CSV, JSON or text files, optionally in partition folders. Made by
    `Catalog.format_table`."""

    @property
    def format(self) -> str:
        """The format of the files."""
        return self._table.format

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """The columns whose values are encoded in folder names."""
        return self._table.schema.partition_keys

    def scan(
        self, columns: Sequence[str] | None = None, filter: FilterLike | None = None, limit: int | None = None
    ) -> FormatScan:
        """Return a scan of the rows. Partitions that the filter excludes are not read.

        Raises:
            ColumnNotFound, InvalidArgument: a wrong column, filter or limit.
            Unsupported: a format that Morrow does not read.
        """
        _ = self.format
        return FormatScan(Asked.of(self._table.where, self.fields, columns, filter, limit), self._table)

    def append(self, data: object) -> int:
        """Write rows to new files and return their number. The files become visible when all are written.

        Args:
            data: as for `Table.append`.

        Raises:
            ColumnNotFound, InvalidArgument: the data do not fit the columns, or the format cannot store a value.
            Unsupported: a type or option that writes do not support. StorageError: no file became visible.
        """
        from morrow.writers.operations.format_table import write_rows

        return write_rows(self._table, data)

    def overwrite(
        self,
        data: object,
        *,
        partition: Mapping[str, object] | None = None,
        replace_where: FilterLike | None = None,
        dynamic: bool | None = None,
    ) -> int:
        """Write rows as `append`, then remove the files that they replace. Readers may see both for a moment.

        Args:
            data: as for `append`, including the columns of `partition`.
            partition: replace only partitions with these values. All rows must have them.
            replace_where: replace the partitions for which this condition on partition keys is true.
            dynamic: True: replace only partitions that `data` has rows for. False: replace all partitions (that
                `partition` names). None: as the option ``dynamic-partition-overwrite`` says (default true).

        Raises: as `append`; `InvalidArgument`: a column is not a partition key, or rows lie outside the replaced
            partitions.
        """
        from morrow.writers.operations.format_table import plan_replace, write_rows

        return write_rows(self._table, data, plan_replace(self._table, partition, replace_where, dynamic=dynamic))


class ObjectTable(_Folder):
    """The files below a folder as rows: ``path``, ``name``, ``length``, ``mtime`` (epoch milliseconds), ``atime`` (0),
    ``owner`` (null). Made by `Catalog.object_table`."""

    def scan(
        self, columns: Sequence[str] | None = None, filter: FilterLike | None = None, limit: int | None = None
    ) -> SystemScan:
        """Return a scan of the list of files. Raises as `FormatTable.scan`."""
        asked = Asked.of(self._table.where, self.fields, columns, filter, limit)

        def make(names: Sequence[str]) -> pl.DataFrame:
            from morrow.readers.execution.format_tables import list_objects

            return list_objects(self._table).select(cols(names))

        return MadeScan(asked, make)


class FormatScan(SystemScan):
    """A scan of a format table. Files are listed when rows are first requested."""

    def __init__(self, asked: Asked, table: FolderTable) -> None:
        super().__init__(asked)
        self._table = table

    @cached_property
    def _parts(self) -> list[Part]:
        from morrow.readers.execution.format_tables import read_parts

        return list(read_parts(self._table, self._asked.filter))

    def prepare(self) -> None:
        _ = self._parts

    def _frames(self) -> Iterator[pl.LazyFrame]:
        from morrow.readers.expressions.polars import filter_rows

        asked = self._asked
        for part in self._parts:
            yield filter_rows(asked.filter, asked.read, part.frame(asked.read)).select(cols(asked.columns))

    def lazy(self) -> pl.LazyFrame:
        import polars as pl

        from morrow.readers.casts.dtypes import to_polars_schema

        frames = list(self._frames()) or [pl.LazyFrame(schema=to_polars_schema(self._asked.shown))]
        rows = pl.concat(frames) if len(frames) > 1 else frames[0]
        return rows if self._asked.limit is None else rows.head(self._asked.limit)

    def to_polars(self) -> pl.DataFrame:
        from morrow.readers.files import translate_errors

        with translate_errors(self._table.where):
            return self.lazy().collect()

    def to_batches(self, batch_rows: int | None = None) -> Iterator[pa.RecordBatch]:
        return refuse_in_fork(self._batches(check_batch_rows(batch_rows)))

    def _batches(self, size: int | None) -> Iterator[pa.RecordBatch]:
        from morrow.readers.casts.dtypes import to_arrow_table
        from morrow.readers.files import translate_errors

        left = self._asked.limit
        for lazy in self._frames():
            if left == 0:
                return
            with translate_errors(self._table.where):
                frame = (lazy if left is None else lazy.head(left)).collect()
            left = None if left is None else left - frame.height
            for batch in to_arrow_table(frame, self._asked.shown).to_batches(max_chunksize=size):
                if batch.num_rows:
                    yield batch

    def count(self) -> int:
        import polars as pl

        from morrow.readers.files import translate_errors

        if not self._parts:
            return 0
        with translate_errors(self._table.where):
            return int(self.lazy().select(pl.len()).collect().item())

    def narrowed(self, columns: Sequence[str] | None = None, filter: FilterLike | None = None) -> FormatScan:
        return FormatScan(self._asked.narrowed(columns, filter), self._table)
