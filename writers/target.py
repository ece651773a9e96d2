"""The target of a write: the table's schema, options and paths, fixed when the write begins.

An operation can override options of the table, which gives it a target with these options.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from morrow.engine.arguments import check_text
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.binary_row import Value, decode_row, decode_rows
from morrow.engine.format.paths import build_bucket_dir
from morrow.engine.format.schema import TableSchema, refuse_unreadable
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.types import DataField
from morrow.engine.io.prefetch import read_each
from morrow.engine.io.store import FileStore
from morrow.engine.merge.engines import describe_merge
from morrow.engine.merge.spec import MergeSpec
from morrow.engine.options import TableOptions, WriteOptions, parse_write_options
from morrow.engine.options.declared import connectors, files, maintenance, merging, table
from morrow.engine.options.registry import OPTIONS, find_present_key, list_options
from morrow.engine.plan.data_files import choose_partition_folder
from morrow.engine.plan.manifests import list_manifests
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.prefetch import load_newest_schema
from morrow.engine.schema.evolution import check_set_option
from morrow.engine.structs import replace


@dataclass(frozen=True)
class WriteTarget:
    """A table at one schema, as writers see it. `commit_user` names the writer in snapshots.

    `begun` is the newest snapshot when the target was created, to save the first request for it; None: unknown.
    """

    metadata: TableMetadata
    schema: TableSchema
    options: TableOptions
    write: WriteOptions
    commit_user: str = field(default_factory=lambda: str(uuid.uuid4()))
    begun: Snapshot | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, metadata: TableMetadata, commit_user: str | None = None) -> WriteTarget:
        """Return the target at the newest schema of the table.

        Raises:
            TableNotFound, CorruptFile. Unsupported, InvalidArgument: options that Morrow cannot apply.
        """
        schema, begun = load_newest_schema(metadata, list_manifests)
        refuse_unreadable(schema, metadata.where)
        options = metadata.options(schema)
        write = parse_write_options(schema.options, keyed=bool(schema.primary_keys), where=metadata.where)
        user = check_text(commit_user, "commit_user") if commit_user else _generate_user(write)
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
        return describe_merge(self.schema, self.options, where=self.where) if self.keyed else None

    @property
    def hides_level_zero(self) -> bool:
        """Whether batch reads see only what compaction has lifted above level 0."""
        return self.options.deletion_vectors if self.merge is None else self.merge.hides_level_zero

    @cached_property
    def partition_fields(self) -> tuple[DataField, ...]:
        return tuple(self.schema.by_name[name] for name in self.schema.partition_keys)

    def partition_values(self, partition: bytes) -> tuple[Value | None, ...]:
        """Return the values of a partition's BinaryRow."""
        return decode_row(partition, [f.type for f in self.partition_fields], where=self.where)

    def bucket_folder(self, partition: bytes, bucket: int) -> str:
        """Return the folder of this bucket's data files."""
        if partition not in self._folders:
            self._folders[partition] = self._partition_folder(partition)
        return build_bucket_dir(self.metadata.root, self._folders[partition], bucket, self.options.data_directory)

    def find_folders(self, partitions: Iterable[bytes]) -> None:
        """Decode many partitions at once before their folders are requested."""
        unknown = [partition for partition in dict.fromkeys(partitions) if partition not in self._folders]
        if unknown and self.partition_fields:
            rows = decode_rows(unknown, [f.type for f in self.partition_fields], where=self.where)
            self._folders.update(zip(unknown, read_each(self.metadata.store, self._folder_of, list(rows)), strict=True))

    @cached_property
    def _folders(self) -> dict[bytes, str]:
        """Cache of the folders of partitions, each of which is requested several times per file."""
        return {}

    def _partition_folder(self, partition: bytes) -> str:
        return self._folder_of(self.partition_values(partition)) if self.partition_fields else ""

    def _folder_of(self, values: Sequence[Value | None]) -> str:
        return choose_partition_folder(self.metadata, self.schema, self.options, values)


def _generate_user(write: WriteOptions) -> str:
    name = str(uuid.uuid4())
    return f"{write.commit_user_prefix}_{name}" if write.commit_user_prefix else name


WRITE_OPTION_KEYS = frozenset(
    option.key
    for option in (
        *(option for theme in (files, maintenance) for option in list_options(theme)),
        *(merging.IGNORE_DELETE, merging.IGNORE_UPDATE_BEFORE, merging.LOOKUP_WAIT),
        *(table.DYNAMIC_BUCKET_TARGET_ROW_NUM, table.POSTPONE_BATCH_WRITE_FIXED_BUCKET),
        connectors.SINK_PARALLELISM,
    )
    if not option.idle and not option.immutable
)
"""Options that a single write may override: how files are written, compacted and committed, not what rows mean."""


def check_write_options(options: Iterable[str]) -> None:
    """Raise `Unsupported` for an option that a single write cannot override."""
    for key in options:
        name = find_present_key(key)
        if name not in WRITE_OPTION_KEYS:
            idle = OPTIONS[name].idle if name in OPTIONS else None
            reason = f", where it has no effect: {idle}," if idle else ""
            raise Unsupported(f"the option {key!r} of a write{reason}", hint="set options of a table by ALTER TABLE")


def override_options(target: WriteTarget, options: Mapping[str, str]) -> WriteTarget:
    """Return the table with other options, for one operation.

    Raises:
        InvalidArgument: an unknown option, a value that does not parse, or an option that cannot change.
        Unsupported: as if the table had these options.
    """
    if not options:
        return target
    changed: dict[str, str] = {}
    for key, value in options.items():
        name = find_present_key(key)
        if name not in OPTIONS:
            raise InvalidArgument(f"{target.where}: there is no option {key!r} of tables")
        check_set_option(target.schema.options, name, value, target.where)
        changed[name] = value
    schema = replace(target.schema, options={**target.schema.options, **changed})
    write = parse_write_options(schema.options, keyed=target.keyed, where=target.where)
    return replace(target, schema=schema, options=target.metadata.options(schema), write=write)
