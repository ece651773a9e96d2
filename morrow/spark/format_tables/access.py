"""What the tasks share that read or write a format table."""

from __future__ import annotations

from dataclasses import dataclass

from morrow.engine.format.schema import TableSchema
from morrow.engine.plan.filter import Filter
from morrow.engine.plan.folder_table import FolderTable
from morrow.spark.job.wire import StoreAccess


@dataclass(frozen=True)
class FolderAccess:
    """A format table as it travels."""

    store: StoreAccess
    kind: str
    schema: TableSchema
    where: str
    is_hives: bool

    @classmethod
    def of(cls, table: FolderTable) -> FolderAccess:
        return cls(StoreAccess.of(table.store, table.root), table.kind, table.schema, table.where, table.is_hives)

    def opened(self) -> FolderTable:
        """Returns the table."""
        return FolderTable(*self.store.opened(), self.kind, self.schema, self.where, self.is_hives)


@dataclass(frozen=True)
class ReadJob:
    """A read: the table, the columns, and the filter, which the rows need not pass."""

    table: FolderAccess
    columns: tuple[str, ...]
    filter: Filter


@dataclass(frozen=True)
class WriteJob:
    """A write: the table, the folder in it that hides files, and the names of the columns of the rows."""

    table: FolderAccess
    staging: str
    columns: tuple[str, ...]
