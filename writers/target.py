"""The target of a write: the table's schema, options and places, fixed when the write begins."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from morrow.engine.format.binary_row import Value, decode_row, decode_rows
from morrow.engine.format.paths import bucket_dir
from morrow.engine.format.schema import TableSchema, refuse_unreadable
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.types import DataField
from morrow.engine.io.ahead import each
from morrow.engine.io.store import FileStore
from morrow.engine.merge.registry import merge_spec
from morrow.engine.merge.spec import MergeSpec
from morrow.engine.options import TableOptions, WriteOptions, parse_write_options
from morrow.engine.plan.manifests import manifests_of
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.newest_state import look
from morrow.engine.plan.partition_folders import folder_to_write


@dataclass(frozen=True)
class WriteTarget:
    """A table at one schema, as writers see it. `commit_user` names the writer in snapshots.

    `begun` is the newest snapshot as the target was made, for the first that asks; None: ask the table.
    """

    metadata: TableMetadata
    schema: TableSchema
    options: TableOptions
    write: WriteOptions
    commit_user: str = field(default_factory=lambda: str(uuid.uuid4()))
    begun: Snapshot | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, metadata: TableMetadata, commit_user: str | None = None) -> WriteTarget:
        """Returns the target at the newest schema of the table.

        Raises:
            TableNotFound, CorruptFile. Unsupported, InvalidArgument: options that Morrow cannot honour.
        """
        schema, begun = look(metadata, manifests_of)
        refuse_unreadable(schema, metadata.where)
        options = metadata.options(schema)
        write = parse_write_options(schema.options, keyed=bool(schema.primary_keys), where=metadata.where)
        user = commit_user or _new_user(write)
        return cls(metadata, schema, options, write, user, begun)

    @property
    def store(self) -> FileStore:
        return self.metadata.store

    @property
    def where(self) -> str:
        """The table's location, for messages."""
        return self.metadata.where

    @property
    def keyed(self) -> bool:
        """Whether the table has a primary key."""
        return bool(self.schema.primary_keys)

    @cached_property
    def merge(self) -> MergeSpec | None:
        """The merge of several versions of a key into one row; None in append tables."""
        return merge_spec(self.schema, self.options, where=self.where) if self.keyed else None

    @property
    def hides_level_zero(self) -> bool:
        """Whether batch reads see only what compaction has lifted above level 0."""
        return self.options.deletion_vectors if self.merge is None else self.merge.hides_level_zero

    @cached_property
    def partition_fields(self) -> tuple[DataField, ...]:
        return tuple(self.schema.by_name[name] for name in self.schema.partition_keys)

    def partition_values(self, partition: bytes) -> tuple[Value | None, ...]:
        """Returns the values of a partition's BinaryRow."""
        return decode_row(partition, [f.type for f in self.partition_fields], where=self.where)

    def bucket_folder(self, partition: bytes, bucket: int) -> str:
        """Returns the folder of this bucket's data files."""
        if partition not in self._folders:
            self._folders[partition] = self._partition_folder(partition)
        return bucket_dir(self.metadata.root, self._folders[partition], bucket, self.options.data_directory)

    def find_folders(self, partitions: Iterable[bytes]) -> None:
        """Decodes many partitions at once whose folders are about to be asked for."""
        unknown = [partition for partition in dict.fromkeys(partitions) if partition not in self._folders]
        if unknown and self.partition_fields:
            rows = decode_rows(unknown, [f.type for f in self.partition_fields], where=self.where)
            self._folders.update(zip(unknown, each(self.metadata.store, self._folder_of, list(rows)), strict=True))

    @cached_property
    def _folders(self) -> dict[bytes, str]:
        """Cache of the folders of partitions: each file asks for its own several times."""
        return {}

    def _partition_folder(self, partition: bytes) -> str:
        return self._folder_of(self.partition_values(partition)) if self.partition_fields else ""

    def _folder_of(self, values: Sequence[Value | None]) -> str:
        return folder_to_write(self.metadata, self.schema, self.options, values)


def _new_user(write: WriteOptions) -> str:
    name = str(uuid.uuid4())
    return f"{write.commit_user_prefix}_{name}" if write.commit_user_prefix else name
