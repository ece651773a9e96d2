"""The table that the tasks of a job write to, as it travels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from morrow.engine.io.store import FileStore
from morrow.engine.options import parse_write_options
from morrow.engine.plan.metadata import TableMetadata
from morrow.spark.job.wire import StoreAccess
from morrow.writers.buckets.postponed import waiting
from morrow.writers.commit.attempt_log import recorded
from morrow.writers.operations.overriding import with_options
from morrow.writers.target import WriteTarget


@dataclass(frozen=True)
class TableAccess:
    """A table at one schema, and the folder of the job's attempt log.

    `waits`: rows of tables with ``bucket`` = -2 are postponed. `options` are those that differ from the schema's, for
    this job.
    """

    store: StoreAccess
    branch: str
    allowed_roots: tuple[str, ...]
    schema_id: int
    commit_user: str
    attempt_log: str = ""
    waits: bool = False
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, target: WriteTarget, attempt_log: str = "") -> TableAccess:
        metadata = target.metadata
        stored = metadata.schema(target.schema.id).options
        return cls(
            StoreAccess.of(target.store, metadata.root),
            metadata.branch,
            metadata.allowed_roots,
            target.schema.id,
            target.commit_user,
            attempt_log,
            not target.write.postpone_fixed,
            {key: value for key, value in target.schema.options.items() if stored.get(key) != value},
        )

    def target(self) -> WriteTarget:
        """Returns the table at the schema that the driver saw, whatever the newest is."""
        return self._at(*self.store.opened())

    def attempt(self, name: str) -> WriteTarget:
        """Returns as `target`; the files that are made through it are logged as those of this attempt of a task."""
        store, root = self.store.opened()
        return self._at(recorded(store, self.attempt_log, name), root)

    def _at(self, store: FileStore, root: str) -> WriteTarget:
        metadata = TableMetadata(store, root, self.branch, self.allowed_roots)
        schema = metadata.schema(self.schema_id)
        write = parse_write_options(schema.options, keyed=bool(schema.primary_keys), where=metadata.where)
        target = WriteTarget(metadata, schema, metadata.options(schema), write, self.commit_user)
        target = with_options(target, self.options)
        return waiting(target) if self.waits else target
