"""The target of a write: the table's schema, options and paths, fixed when the write begins.

An operation can override options of the table, which gives it a target with these options.
"""

from __future__ import annotations

import re
import sys
import uuid
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

from morrow.engine.arguments import check_mapping, check_text
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.binary_row import Value, decode_row, decode_rows
from morrow.engine.format.blobs import is_blob_type
from morrow.engine.format.paths import build_bucket_dir
from morrow.engine.format.schema import TableSchema, refuse_unreadable
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.types import DataField
from morrow.engine.io.store import FileStore, read_each
from morrow.engine.merge.engines import describe_merge
from morrow.engine.merge.spec import MergeSpec
from morrow.engine.options import TableOptions, WriteOptions, parse_write_options
from morrow.engine.options.declared import connectors, files, maintenance, merging, scans, table
from morrow.engine.options.declared.features import BLOB_AS_DESCRIPTOR, BLOB_VIEW_RESOLVE_ENABLED, GLOBAL_INDEX_ENABLED
from morrow.engine.options.table_options import OPTIONS, find_present_key, list_options, refuse_options
from morrow.engine.plan.data_files import choose_partition_folder
from morrow.engine.plan.manifests import list_manifests, load_newest_schema
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.time_travel import parse_travel_options
from morrow.engine.schema.creation import format_options
from morrow.engine.schema.evolution import check_set_option
from morrow.engine.schema.feature_rules import check_iceberg
from morrow.engine.schema.proposal import Proposal
from morrow.engine.structs import replace

NO_PROGRAM = ("", "-", "-c", "-m")
"""First arguments of Python without a script."""
MAX_PART = 32
"""Maximum characters of the user, host and program in the name of a commit user."""


@dataclass(frozen=True)
class WriteTarget:
    """A table at one schema, as writers see it. `commit_user` names the writer in snapshots.

    `begun` is the newest snapshot when the target was created, to save the first request for it; None: unknown.
    `properties` are stored in all snapshots that the writer commits.
    """

    metadata: TableMetadata
    schema: TableSchema
    options: TableOptions
    write: WriteOptions
    commit_user: str = field(default_factory=lambda: str(uuid.uuid4()))
    begun: Snapshot | None = field(default=None, compare=False, repr=False)
    properties: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, metadata: TableMetadata, commit_user: str | None = None, properties: Mapping[str, str] | None = None
    ) -> WriteTarget:
        """Return the target at the newest schema of the table.

        Raises:
            InvalidArgument: properties that do not map text to text. TableNotFound, CorruptFile.
            Unsupported, InvalidArgument: options that Morrow cannot apply.
        """
        named = check_properties(properties)
        schema, begun = load_newest_schema(metadata, list_manifests)
        refuse_unreadable(schema, metadata.where)
        options = metadata.options(schema)
        write = parse_write_options(schema.options, keyed=bool(schema.primary_keys), where=metadata.where)
        if write.publishes_iceberg:
            check_iceberg(Proposal(schema, options, metadata.where))
        made = cls(metadata, schema, options, write, commit_user or "", begun, named)
        made = override_options(made, dict(metadata.dynamic))
        if commit_user:
            check_text(commit_user, "commit_user")
            return made
        return replace(made, commit_user=_generate_user(made.write))

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

    @cached_property
    def filed_blobs(self) -> tuple[DataField, ...]:
        """The columns of an append table that have blob files."""
        return () if self.keyed else self._stored_blobs

    @cached_property
    def managed_blobs(self) -> tuple[DataField, ...]:
        """The columns of a table with a primary key whose values lie in packs."""
        return self._stored_blobs if self.keyed else ()

    @property
    def _stored_blobs(self) -> tuple[DataField, ...]:
        inline = (*self.write.descriptor_blobs, *self.write.view_blobs)
        return tuple(f for f in self.schema.fields if is_blob_type(f.type) and f.name not in inline)

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
        folder = self.partition_folder(partition)
        return build_bucket_dir(self.metadata.root, folder, bucket, self.options.data_directory)

    def partition_folder(self, partition: bytes) -> str:
        """Return the folder of a partition, relative to the table; "" for a table without partition keys."""
        if partition not in self._folders:
            values = self.partition_values(partition) if self.partition_fields else None
            self._folders[partition] = "" if values is None else self._folder_of(values)
        return self._folders[partition]

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

    def _folder_of(self, values: Sequence[Value | None]) -> str:
        return choose_partition_folder(self.metadata, self.schema, self.options, values)


def _generate_user(write: WriteOptions) -> str:
    """Return a new commit user: it begins with ``commit.user-prefix``, or with the user, host and program."""
    return f"{write.commit_user_prefix or _describe_process()}_{uuid.uuid4()}"


@cache
def _describe_process() -> str:
    """Return ``user@host-program``, in characters that are valid in names of files."""
    import getpass
    import socket

    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # the user has no name, as in many containers
        user = "unknown"
    program = Path(sys.argv[0]).name if sys.argv and sys.argv[0] not in NO_PROGRAM else "python"
    text = f"{user[:MAX_PART]}@{socket.gethostname()[:MAX_PART]}-{program[:MAX_PART]}"
    return re.sub(r"[^A-Za-z0-9@._-]", "-", text)


def check_properties(properties: Mapping[str, str] | None) -> Mapping[str, str]:
    """Return the properties of a snapshot. Raises `InvalidArgument` unless they map text to text."""
    return {
        check_text(name, "the name of a property"): check_text(value, f"the property {name!r}")
        for name, value in check_mapping(properties, "properties").items()
    }


WRITE_OPTION_KEYS = frozenset(
    option.key
    for option in (
        *(option for theme in (files, maintenance) for option in list_options(theme)),
        *(merging.IGNORE_DELETE, merging.IGNORE_UPDATE_BEFORE, merging.LOOKUP_WAIT),
        *(table.DYNAMIC_BUCKET_TARGET_ROW_NUM, table.POSTPONE_DEFAULT_BUCKET_NUM),
        *(table.POSTPONE_BATCH_WRITE_FIXED_BUCKET, table.POSTPONE_BATCH_WRITE_FIXED_BUCKET_MAX_PARALLELISM),
        *(table.POSTPONE_TARGET_ROW_NUM_PER_BUCKET, table.POSTPONE_TARGET_SIZE_PER_BUCKET),
        connectors.SINK_PARALLELISM,
    )
    if not option.idle and not option.immutable
)
"""Options that a single write may override: how files are written, compacted and committed, not what rows mean."""

READ_OPTION_KEYS = frozenset(
    (
        *(option.key for option in list_options(scans) if not option.idle),
        *(BLOB_AS_DESCRIPTOR.key, BLOB_VIEW_RESOLVE_ENABLED.key),
        *(GLOBAL_INDEX_ENABLED.key, merging.DELETION_VECTORS_MERGE_ON_READ.key, table.POSTPONE_MERGE_ON_READ.key),
    )
)
"""Options that choose what a single read or stream reads."""


def check_write_options(options: Iterable[str], allowed: Container[str] = WRITE_OPTION_KEYS) -> None:
    """Raise `Unsupported` for an option that a single write cannot override, or that is not `allowed`."""
    what = "a write" if allowed is WRITE_OPTION_KEYS else "single reads and writes"
    for key in options:
        name = find_present_key(key)
        if name not in allowed:
            idle = OPTIONS[name].idle if name in OPTIONS else None
            reason = f", where it has no effect: {idle}," if idle else ""
            hint = "set options of a table by ALTER TABLE or Table.alter.set_options"
            raise Unsupported(f"the option {key!r} of {what}{reason}", hint=hint)


def with_dynamic_options(metadata: TableMetadata, options: Mapping[str, object]) -> TableMetadata:
    """Return the table with other options for its reads and writes; see `Table.with_options`.

    Raises `InvalidArgument`: an option or value that is not valid. `Unsupported`: an option that belongs to the table.
    """
    given = format_options(check_mapping(options, "options"), metadata.where)
    check_write_options(given, READ_OPTION_KEYS | WRITE_OPTION_KEYS)
    dynamic = {**dict(metadata.dynamic), **{find_present_key(key): value for key, value in given.items()}}
    made = replace(metadata, dynamic=tuple(sorted(dynamic.items())))
    parse_travel_options(made.options(made.latest_schema()).travel)
    if not dynamic.keys() <= READ_OPTION_KEYS:  # tables that Morrow cannot write are read with options, too
        WriteTarget.of(made)
    return made


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
    refuse_options(changed, target.where)
    schema = replace(target.schema, options={**target.schema.options, **changed})
    write = parse_write_options(schema.options, keyed=target.keyed, where=target.where)
    return replace(target, schema=schema, options=target.metadata.options(schema), write=write)
