"""The table that is written: its schema, options and places, fixed when a write begins."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from functools import cached_property

from morrow.engine.format.binary_row import Value, decode_row
from morrow.engine.format.partition_path import partition_path
from morrow.engine.format.paths import bucket_dir
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.types import DataField
from morrow.engine.io.store import FileStore
from morrow.engine.merge.registry import merge_spec
from morrow.engine.merge.spec import MergeSpec
from morrow.engine.options import TableOptions, WriteOptions, parse_write_options
from morrow.engine.plan.metadata import TableMetadata


@dataclass(frozen=True)
class WriteTarget:
    """One table at one schema, as writers see it. `commit_user` names the writer in snapshots."""

    metadata: TableMetadata
    schema: TableSchema
    options: TableOptions
    write: WriteOptions
    commit_user: str = field(default_factory=lambda: str(uuid.uuid4()))

    @classmethod
    def of(cls, metadata: TableMetadata, commit_user: str | None = None) -> WriteTarget:
        """The newest schema of the table.

        Raises:
            TableNotFound, CorruptFile. Unsupported, InvalidArgument: options that Morrow cannot honour.
        """
        schema = metadata.latest_schema()
        options = metadata.options(schema)
        write = parse_write_options(schema.options, keyed=bool(schema.primary_keys), where=metadata.where)
        user = commit_user or _new_user(write)
        return cls(metadata, schema, options, write, user)

    @property
    def store(self) -> FileStore:
        return self.metadata.store

    @property
    def where(self) -> str:
        """The table's place, for messages."""
        return self.metadata.where

    @property
    def keyed(self) -> bool:
        """Whether the table has a primary key."""
        return bool(self.schema.primary_keys)

    @cached_property
    def merge(self) -> MergeSpec | None:
        """How versions of a key become one row; None in append tables."""
        return merge_spec(self.schema, self.options, where=self.where) if self.keyed else None

    @cached_property
    def partition_fields(self) -> tuple[DataField, ...]:
        return tuple(self.schema.by_name[name] for name in self.schema.partition_keys)

    def partition_values(self, partition: bytes) -> tuple[Value | None, ...]:
        """The values of a partition's BinaryRow."""
        return decode_row(partition, [f.type for f in self.partition_fields], where=self.where)

    def bucket_folder(self, partition: bytes, bucket: int) -> str:
        """Where data files of this bucket lie."""
        folder = ""
        if self.partition_fields:
            folder = partition_path(
                self.partition_values(partition),
                [f.type for f in self.partition_fields],
                self.schema.partition_keys,
                default_name=self.options.partition_default_name,
                legacy_name=self.options.legacy_partition_name,
            )
        return bucket_dir(self.metadata.root, folder, bucket, self.options.data_directory)


def _new_user(write: WriteOptions) -> str:
    name = str(uuid.uuid4())
    return f"{write.commit_user_prefix}_{name}" if write.commit_user_prefix else name
