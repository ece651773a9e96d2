"""A table as a `pyarrow.dataset.Dataset`: hosts that support datasets push their columns and filters into it.

DuckDB calls `scanner(columns, filter)` when the object is registered or found by name; Polars does so through
`scan_pyarrow_dataset`. Each scan is planned anew with the pushed-down columns and filter, so it prunes like any other
scan.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from morrow.engine.errors import Unsupported
from morrow.engine.io.store import FileStore
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.engine.telling import shown

ReadFunction = Callable[[Sequence[str] | None, pc.Expression | None], pa.RecordBatchReader]
"""Opens a stream of the named columns (None: all) with the rows for which the expression is true."""

PlanFunction = Callable[[Sequence[str] | None, pc.Expression | None], tuple[ScanPlan, FileStore]]
"""Plans what a `ReadFunction` would read; returns the plan and the store of its files."""


class PaimonDataset(pads.Dataset):  # type: ignore[misc]  # pyarrow ships no types
    """A scan of a Paimon table, as a dataset that can be read any number of times."""

    def __init__(
        self, schema: pa.Schema, read: ReadFunction, key: Hashable = None, plan: PlanFunction | None = None
    ) -> None:
        # The base class has no Python constructor; only the methods below are ever called.
        self._schema = schema
        self.read = read
        self.plan = plan
        """For hosts that take rows in another layout than pyarrow's; None: there is `read` only."""
        self.key = key
        """The source of the rows (table, snapshot, columns, filter): equal keys, equal rows; None is never equal."""

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
        """Returns a scanner over the rows; `columns` and `filter` are pushed into the file scans.

        Keyword options of pyarrow for its own readers (batch size, readahead, threads) have no effect here.
        """
        if isinstance(columns, dict):
            reader = self.read(None, filter)
            return pads.Scanner.from_batches(reader, columns=columns)
        reader = self.read(columns, filter)
        return pads.Scanner.from_batches(reader)

    def _refused(self, *_arguments: Any, **_options: Any) -> NoReturn:
        raise Unsupported(
            "this method of pyarrow datasets",
            where=repr(self),
            hint="use schema, scanner, to_table, to_batches, count_rows, head or take; to_table() gives an Arrow table",
        )

    # The base class would access a C++ dataset that does not exist, and crash the process.
    filter = get_fragments = join = join_asof = replace_schema = sort_by = _refused
    partition_expression = property(_refused)

    def __repr__(self) -> str:
        return shown(f"PaimonDataset({', '.join(self._schema.names)})")
