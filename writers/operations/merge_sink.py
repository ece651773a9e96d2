"""Where the changes of a merge go: row kinds in keyed tables, changes to single rows in append tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Protocol

import numpy as np
import pyarrow as pa

from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.filter import Filter
from morrow.readers.dtypes import to_arrow_table
from morrow.readers.file_frames import POSITION
from morrow.writers.append.row_level import Found, RowChanges
from morrow.writers.expiry.automatic import maintained
from morrow.writers.messages import BATCH_COMMIT_IDENTIFIER
from morrow.writers.operations.scanning import checked, of_kind, rows_where
from morrow.writers.operations.session import WriteSession, commit_once
from morrow.writers.target import WriteTarget

Batch = tuple[pa.Table, Callable[[pa.Array], object]]
"""Rows of the table, and what gives the handle of some of them by their numbers."""


class MergeSink(Protocol):
    """Reads the rows of a table and takes what becomes of them. A context manager: without a commit nothing stays."""

    def read(self, filter: Filter) -> Iterator[Batch]: ...
    def insert(self, rows: pa.Table) -> None: ...
    def update(self, rows: pa.Table, found: object) -> None: ...
    def delete(self, rows: pa.Table, found: object) -> None: ...
    def commit(self) -> Snapshot | None: ...
    def __enter__(self) -> MergeSink: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def sink_for(target: WriteTarget, snapshot: Snapshot | None) -> MergeSink:
    """The sink of a table."""
    return _KeyedSink(target, snapshot) if target.keyed else _AppendSink(target, snapshot)


class _KeyedSink:
    def __init__(self, target: WriteTarget, snapshot: Snapshot | None) -> None:
        self._target, self._snapshot = target, snapshot
        self._session = WriteSession(target)

    def read(self, filter: Filter) -> Iterator[Batch]:
        for rows in rows_where(self._target, self._snapshot, filter):
            yield rows, lambda _numbers: None

    def insert(self, rows: pa.Table) -> None:
        self._write(rows, "+I")

    def update(self, rows: pa.Table, found: object) -> None:  # noqa: ARG002 - the key finds them
        self._write(rows, "+U")

    def delete(self, rows: pa.Table, found: object) -> None:  # noqa: ARG002
        self._write(rows, "-D")

    def commit(self) -> Snapshot | None:
        return self._session.commit()

    def __enter__(self) -> _KeyedSink:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.abort()

    def _write(self, rows: pa.Table, kind: str) -> None:
        self._session.write(of_kind(self._target, rows, kind), kind)


class _AppendSink:
    def __init__(self, target: WriteTarget, snapshot: Snapshot | None) -> None:
        self._target = target
        self._changes = RowChanges(target, snapshot)

    def read(self, filter: Filter) -> Iterator[Batch]:
        fields = self._target.schema.fields
        for found in self._changes.matching(filter, tuple(f.name for f in fields)):
            rows = to_arrow_table(found.rows.drop(POSITION), fields)
            yield rows, partial(_some, found)

    def insert(self, rows: pa.Table) -> None:
        self._changes.append(checked(self._target, rows))

    def update(self, rows: pa.Table, found: object) -> None:
        self.delete(rows, found)
        self.insert(rows)

    def delete(self, rows: pa.Table, found: object) -> None:  # noqa: ARG002 - positions find them
        assert isinstance(found, Found)
        self._changes.delete(found)

    def commit(self) -> Snapshot | None:
        return commit_once(maintained(self._target), self._changes.messages(), BATCH_COMMIT_IDENTIFIER)

    def __enter__(self) -> _AppendSink:
        self._changes.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._changes.close()


def _some(found: Found, numbers: pa.Array) -> Found:
    return replace(found, rows=found.rows[np.asarray(numbers)])
