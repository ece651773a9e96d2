"""The metastore's side of a table: its lock, its copy of the schema, its list of partitions."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from morrow.engine.catalog.hive.client import Gone, Metastore
from morrow.engine.catalog.hive.partitions import tell_partitions
from morrow.engine.catalog.hive.tables import Kept, has_partitions
from morrow.engine.catalog.names import BRANCH_PREFIX, MARK, table_name
from morrow.engine.errors import MorrowError
from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.owner import Owned, TableOwner
from morrow.engine.telling import logger

log = logger(__name__)


class TableKeeper(Protocol):
    """What a catalog does for its tables' owners."""

    @property
    def metastore(self) -> Metastore: ...

    @property
    def kept(self) -> Kept: ...

    def lock_of(self, database: str, table: str) -> AbstractContextManager[object]:
        """Returns the lock of a table, where the catalog takes locks."""

    def synchronize(self, name: str, before: TableSchema, schema: TableSchema) -> None:
        """Notes a new schema in the metastore."""


@dataclass(frozen=True)
class HiveTable(TableOwner):
    """What the metastore does about one table. It `owns` the tags that it shows as partitions: only Java makes them."""

    catalog: TableKeeper
    place: TableMetadata
    """The files of the table, without an owner."""
    name: str
    owns: Owned = Owned.NOTHING

    def lock(self, branch: str) -> AbstractContextManager[object]:
        database, table = table_name(self.name)
        return self.catalog.lock_of(
            database, table if branch == MAIN_BRANCH else f"{table}{MARK}{BRANCH_PREFIX}{branch}"
        )

    def schema_changed(self, branch: str, schema: TableSchema) -> None:
        """Notes the schema in the metastore; where that refuses it, as of types, the schema is taken back."""
        if branch != MAIN_BRANCH:
            return
        try:
            self.catalog.synchronize(self.name, self.place.schema(schema.id - 1), schema)
        except MorrowError:
            self.place.store.delete(self.place.paths.schema(schema.id))
            raise

    def snapshot_committed(self, branch: str, snapshot: Snapshot) -> None:
        """Tells the partitions; the snapshot is there, so a failure is only a warning."""
        if branch != MAIN_BRANCH or not has_partitions(self.place.schema(snapshot.schema_id)):
            return
        database, table = table_name(self.name)
        try:
            tell_partitions(self.catalog.metastore, self.catalog.kept, database, table, self.place, snapshot)
        except (Gone, MorrowError) as error:
            log.warning("%s: snapshot %d is committed, its partitions are not told: %s", self.name, snapshot.id, error)
