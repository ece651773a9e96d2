"""The base classes of system tables, and the state of a table that they describe."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import polars as pl

from morrow.engine.errors import ColumnNotFound
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.types import DataField, DataType, parse_atomic
from morrow.engine.options import TableOptions
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.time_travel import Travel, parse_travel_options, resolve_travel
from morrow.engine.redaction import suggest_name
from morrow.readers.casts.dtypes import to_polars_schema

Fields: TypeAlias = tuple[DataField, ...]


@dataclass(frozen=True)
class TableState:
    """The state of a table for one query: the newest state, or the state that `travel` selects.

    Everything is looked up once, on first use, so that the results of one query are consistent. The ``scan.*`` options
    stored with the table select a snapshot if `travel` does not.
    """

    metadata: TableMetadata
    travel: Travel = field(default_factory=Travel)

    @cached_property
    def newest_schema(self) -> TableSchema:
        return self.metadata.latest_schema()

    @cached_property
    def options(self) -> TableOptions:
        """The current options, regardless of time travel, as in Java."""
        return self.metadata.options(self.newest_schema)

    @cached_property
    def _found(self) -> tuple[Travel, Snapshot | None]:
        travel = parse_travel_options(self.options.travel) if self.travel.is_latest else self.travel
        return travel, resolve_travel(self.metadata, travel)

    @property
    def snapshot(self) -> Snapshot | None:
        """The snapshot that is described; None for a table without snapshots.

        Raises `SnapshotNotFound`, `SnapshotExpired`, `TagNotFound`: the target of the time travel does not exist.
        """
        return self._found[1]

    @property
    def schema(self) -> TableSchema:
        """The newest schema, or with time travel the snapshot's schema. Raises as `snapshot`."""
        travel, snapshot = self._found
        travelled = not travel.is_latest and snapshot is not None
        return self.metadata.schema(snapshot.schema_id) if travelled and snapshot else self.newest_schema


class SystemTable(Protocol):
    """A table derived from another one: ``t$name``."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str:
        """A one-line description of its rows."""

    @property
    def travels(self) -> bool:
        """Whether it describes a snapshot, so that time travel changes its rows."""

    def fields(self, state: TableState) -> Fields:
        """Return the columns: Java's names, types and nullability, in their order."""


Make: TypeAlias = Callable[[TableState, Collection[str]], pl.DataFrame]
"""Makes the rows of a metadata table: at least the selected columns, in Morrow's dtypes."""


@dataclass(frozen=True)
class MetadataTable:
    """A system table whose rows come from metadata files, without reading data."""

    name: str
    description: str
    columns: Fields
    make: Make
    travels: bool = False

    def fields(self, _state: TableState) -> Fields:
        return self.columns

    def rows(self, state: TableState, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Return the rows, in Java's order if any; dtypes as in `to_polars_schema(fields)`.

        `columns`: output columns in order, None for all. Other columns are not computed.

        Raises:
            ColumnNotFound: no such column.
            SnapshotNotFound, SnapshotExpired, TagNotFound: the target of the time travel does not exist.
            CorruptFile, FileMissing, Unsupported, UnsafePath: metadata that cannot be read.
        """
        names = [column.name for column in self.columns]
        wanted = names if columns is None else list(columns)
        for name in wanted:
            if name not in names:
                raise ColumnNotFound(
                    f"${self.name} has no column {name!r}; {suggest_name(name, names)}its "
                    f"columns are {', '.join(names)}"
                )
        return self.make(state, frozenset(wanted)).select(wanted)


def make_columns(**types: str | DataType) -> Fields:
    """Return columns by name and type; their ids count from 0, as in Java."""
    kinds = {name: parse_atomic(kind) if isinstance(kind, str) else kind for name, kind in types.items()}
    return tuple(DataField(number, name, kind) for number, (name, kind) in enumerate(kinds.items()))


def make_frame(columns: Fields, rows: Iterable[Sequence[Any]]) -> pl.DataFrame:
    """Return a frame of rows given as Python values, for metadata stored as small files (snapshots, schemas, tags)."""
    return pl.DataFrame(list(rows), schema=to_polars_schema(columns), orient="row")


def suggest_table_name(name: str, known: Sequence[str]) -> str:
    """Return a hint that lists all existing names and suggests the most similar one."""
    return f"{suggest_name(name, known)}there are {', '.join(known)}"
