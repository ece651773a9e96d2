"""Sinks for the changes of a merge: row kinds in keyed tables, row-level changes in append tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from types import TracebackType
from typing import Protocol

import numpy as np
import pyarrow as pa

from morrow.engine.format.snapshot import Snapshot
from morrow.engine.names import POSITION
from morrow.engine.values import replace
from morrow.readers.casts.dtypes import to_arrow_table
from morrow.writers.append.matching import Found
from morrow.writers.append.row_level import RowChanges
from morrow.writers.commit.messages import BATCH_COMMIT_IDENTIFIER
from morrow.writers.commit.premise import Premise
from morrow.writers.history.expiry.automatic import maintained
from morrow.writers.operations.committing import commit_once
from morrow.writers.operations.scanning import checked, of_kind, rows_where
from morrow.writers.operations.session import WriteSession
from morrow.writers.target import WriteTarget

Batch = tuple[pa.Table, Callable[[pa.Array], object]]
"""Rows of the table, and a function from row numbers to a handle of those rows."""


class MergeSink(Protocol):
    """A reader of a table's rows and writer of their changes. A context manager: without a commit no file stays."""

    def read(self) -> Iterator[Batch]: ...
    def insert(self, rows: pa.Table) -> None: ...
    def update(self, rows: pa.Table, found: object) -> None: ...
    def delete(self, rows: pa.Table, found: object) -> None: ...
    def commit(self) -> Snapshot | None: ...
    def __enter__(self) -> MergeSink: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def sink_for(target: WriteTarget, premise: Premise) -> MergeSink:
    """Returns the sink of a table: it reads the rows of the premise, and commits under it."""
    return _KeyedSink(target, premise) if target.keyed else _AppendSink(target, premise)


class _KeyedSink:
    def __init__(self, target: WriteTarget, premise: Premise) -> None:
        self._target, self._premise = target, premise
        self._session = WriteSession(target)

    def read(self) -> Iterator[Batch]:
        for rows in rows_where(self._target, self._premise.read, self._premise.filter):
            yield rows, lambda _numbers: None

    def insert(self, rows: pa.Table) -> None:
        self._write(rows, "+I")

    def update(self, rows: pa.Table, found: object) -> None:  # noqa: ARG002 - the key finds them
        self._write(rows, "+U")

    def delete(self, rows: pa.Table, found: object) -> None:  # noqa: ARG002
        self._write(rows, "-D")

    def commit(self) -> Snapshot | None:
        return self._session.commit(premise=self._premise)

    def __enter__(self) -> _KeyedSink:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.abort()

    def _write(self, rows: pa.Table, kind: str) -> None:
        self._session.write(of_kind(self._target, rows, kind), kind)


class _AppendSink:
    def __init__(self, target: WriteTarget, premise: Premise) -> None:
        self._target, self._premise = target, premise
        self._changes = RowChanges(target, premise.read)

    def read(self) -> Iterator[Batch]:
        fields = self._target.schema.fields
        for found in self._changes.matching(self._premise.filter, tuple(f.name for f in fields)):
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
        messages = self._changes.messages()
        return commit_once(maintained(self._target), messages, BATCH_COMMIT_IDENTIFIER, premise=self._premise)

    def __enter__(self) -> _AppendSink:
        self._changes.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._changes.close()


def _some(found: Found, numbers: pa.Array) -> Found:
    return replace(found, rows=found.rows[np.asarray(numbers)])
