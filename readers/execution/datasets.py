"""Scans as pyarrow datasets, whose columns and filters are pushed into the files; and their fragments."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NoReturn, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.types import DataField
from morrow.engine.io.store import FileStore
from morrow.engine.plan.filter import FilterLike
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.engine.redaction import clean_text

ReadFunction = Callable[[Sequence[str] | None, pc.Expression | None], pa.RecordBatchReader]
"""Opens a stream of the named columns (None: all) with the rows for which the expression is true."""

PlanFunction = Callable[[Sequence[str] | None, pc.Expression | None], tuple[ScanPlan, FileStore]]
"""Plans what a `ReadFunction` would read; returns the plan and the store of its files."""

NarrowFunction = Callable[["Sequence[str] | None", "FilterLike | None"], "PaimonDataset"]
"""Returns the dataset of these columns (None: all), and of the rows for which a filter is true."""

SummarizeFunction = Callable[[Sequence[tuple[str, str | None]]], "pa.Table | None"]
"""Returns aggregates of all rows, as (``count``, ``min`` or ``max``, column or None for rows), from metadata and masks.

The result has one row, and columns ``s0``, ``s1`` ...; None if rows have to be read.
"""


class Divided(Protocol):
    """A part of a scan."""

    @property
    def schema(self) -> pa.Schema: ...
    @property
    def paths(self) -> list[str]: ...
    def narrowed(self, columns: Sequence[str] | None = None, filter: FilterLike | None = None) -> Divided: ...
    def to_reader(self) -> pa.RecordBatchReader: ...
    def count(self) -> int: ...


class PaimonFragment(pads.Fragment):  # type: ignore[misc]  # pyarrow ships no types
    """A part of a `PaimonDataset`: the rows of a data file, or of several whose rows are merged. It pickles."""

    def __init__(self, rows: Divided) -> None:
        # The base class lacks a Python constructor; only the methods below are ever called.
        self._rows = rows

    @property
    def physical_schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return self._rows.schema

    @property
    def partition_expression(self) -> pc.Expression:
        """The constant true: partition columns are columns of the rows."""
        return pc.scalar(True)

    @property
    def paths(self) -> list[str]:
        """The paths of the data files."""
        return self._rows.paths

    def scanner(
        self,
        schema: pa.Schema | None = None,
        columns: Sequence[str] | dict[str, pc.Expression] | None = None,
        filter: pc.Expression | None = None,  # pyarrow's name
        **_options: Any,
    ) -> pads.Scanner:
        """Return a scanner over the rows; `columns` and `filter` are pushed into the file scans.

        Raises `InvalidArgument`: another schema than that of the fragment.
        """
        if schema is not None and schema != self.physical_schema:
            raise InvalidArgument("schema is that of the fragment; cast the rows that you read")
        if isinstance(columns, dict):
            reader = self._rows.narrowed(None, filter).to_reader()
            return pads.Scanner.from_batches(reader, columns=columns)
        return pads.Scanner.from_batches(self._rows.narrowed(columns, filter).to_reader())

    def to_table(self, schema: pa.Schema | None = None, **options: Any) -> pa.Table:
        """Return the rows as an Arrow table; options as of `scanner`."""
        return self.scanner(schema, **options).to_table()

    def to_batches(self, schema: pa.Schema | None = None, **options: Any) -> Iterator[pa.RecordBatch]:
        """Yield the rows as record batches; options as of `scanner`."""
        yield from self.scanner(schema, **options).to_batches()

    def head(self, num_rows: int, **options: Any) -> pa.Table:
        """Return the first rows; options as of `scanner`."""
        return self.scanner(**options).head(num_rows)

    def take(self, indices: object, **options: Any) -> pa.Table:
        """Return the rows at these positions; options as of `scanner`."""
        return self.to_table(**options).take(indices)

    def count_rows(self, **options: Any) -> int:
        """Return the number of rows, from metadata if possible; options as of `scanner`."""
        return self._rows.narrowed(None, options.get("filter")).count()

    def __reduce__(self) -> tuple[Any, ...]:
        return PaimonFragment, (self._rows,)

    def __repr__(self) -> str:
        return clean_text(f"PaimonFragment({', '.join(self.paths)})")


class PaimonDataset(pads.Dataset):  # type: ignore[misc]  # pyarrow ships no types
    """A scan of a Paimon table, as a dataset that can be read any number of times."""

    def __init__(
        self,
        schema: pa.Schema,
        read: ReadFunction,
        key: Hashable = None,
        plan: PlanFunction | None = None,
        *,
        fields: Sequence[DataField] = (),
        keys: frozenset[str] = frozenset(),
        narrow: NarrowFunction | None = None,
        summarize: SummarizeFunction | None = None,
        divide: Callable[[pc.Expression | None], Sequence[Divided]] | None = None,
    ) -> None:
        # The base class lacks a Python constructor; only the methods below are ever called.
        self._schema = schema
        self.read = read
        self.plan = plan
        """Plans a read for engines that take rows in another layout; None if only `read` is available."""
        self.key = key
        """The source of the rows (table, snapshot, columns, filter); equal keys mean equal rows, except None."""
        self.fields = fields
        """The columns as fields of the table, if `narrow` is available."""
        self.keys = keys
        """The columns of the primary key, if `narrow` is available."""
        self.narrow = narrow
        self.summarize = summarize
        self._divide = divide

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of all columns."""
        return self._schema

    def scanner(
        self,
        columns: Sequence[str] | dict[str, pc.Expression] | None = None,
        filter: pc.Expression | None = None,  # pyarrow's name
        **_options: Any,
    ) -> pads.Scanner:
        """Return a scanner over the rows; `columns` and `filter` are pushed into the file scans.

        Keyword options of pyarrow for its own readers (batch size, readahead, threads) are ignored.
        """
        if isinstance(columns, dict):
            reader = self.read(None, filter)
            return pads.Scanner.from_batches(reader, columns=columns)
        reader = self.read(columns, filter)
        return pads.Scanner.from_batches(reader)

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[PaimonFragment]:
        """Yield a fragment for each data file, or each set of files whose rows are merged, that may hold such rows."""
        if self._divide is None:
            self._refuse()
        yield from map(PaimonFragment, self._divide(filter))

    def _refuse(self, *_arguments: Any, **_options: Any) -> NoReturn:
        raise Unsupported(
            "this method of pyarrow datasets",
            where=repr(self),
            hint="use schema, scanner, get_fragments, to_table, to_batches, count_rows, head or take",
        )

    # The base class would access a C++ dataset that does not exist, and crash the process.
    filter = join = join_asof = replace_schema = sort_by = _refuse
    partition_expression = property(_refuse)

    def __repr__(self) -> str:
        return clean_text(f"PaimonDataset({', '.join(self._schema.names)})")
