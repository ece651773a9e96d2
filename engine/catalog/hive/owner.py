"""The metastore's side of a table: its lock, its copy of the schema, its list of partitions."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from morrow.engine.catalog.hive.client import Gone
from morrow.engine.catalog.hive.partitions import tell_partitions
from morrow.engine.catalog.hive.tables import has_partitions
from morrow.engine.catalog.names import BRANCH_PREFIX, MARK, table_name
from morrow.engine.errors import MorrowError
from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.owner import Owned, TableOwner
from morrow.engine.telling import logger

if TYPE_CHECKING:
    from morrow.engine.catalog.hive.catalog import HiveCatalog

log = logger(__name__)


@dataclass(frozen=True)
class HiveTable(TableOwner):
    """What the metastore does about one table. It `owns` the tags that it shows as partitions: only Java makes them."""

    catalog: HiveCatalog
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
        place = self.catalog.table(self.name)
        try:
            self.catalog.synchronize(self.name, place.schema(schema.id - 1), schema)
        except MorrowError:
            place.store.delete(place.paths.schema(schema.id))
            raise

    def snapshot_committed(self, metadata: TableMetadata, snapshot: Snapshot) -> None:
        """Tells the partitions; the snapshot is there, so a failure is only a warning."""
        if metadata.branch != MAIN_BRANCH or not has_partitions(metadata.schema(snapshot.schema_id)):
            return
        database, table = table_name(self.name)
        try:
            tell_partitions(self.catalog.metastore, self.catalog.kept, database, table, metadata, snapshot)
        except (Gone, MorrowError) as error:
            log.warning("%s: snapshot %d is committed, its partitions are not told: %s", self.name, snapshot.id, error)
