"""What the options of a table say about reading it.

Options that change what a read returns are parsed here, or refused here by name when Morrow does not handle them.
Options that only steer writing, streaming or a particular engine are kept as text in `raw` and change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.options.parsing import choice, flag, integer, names

DEFAULT_PARTITION_NAME = "__DEFAULT_PARTITION__"
MERGE_ENGINES = ("deduplicate", "partial-update", "aggregation", "first-row")
MERGE_ENGINE_PLUGINS = "morrow.merge_engines"
"""The entry points by which other packages add merge engines."""
BUCKET_FUNCTIONS = ("default", "mod", "hive")
TRAVEL_KEYS = (
    "scan.snapshot-id",
    "scan.tag-name",
    "scan.timestamp",
    "scan.timestamp-millis",
    "scan.watermark",
    "scan.version",
)
IGNORE_DELETE_KEYS = (
    "ignore-delete",
    "first-row.ignore-delete",
    "deduplicate.ignore-delete",
    "partial-update.ignore-delete",
)
"""The first of them that is set counts."""

REFUSED_UNLESS: Mapping[str, tuple[str, ...]] = {
    "type": ("table",),
    "deletion-vectors.merge-on-read": ("false",),
    "postpone.merge-on-read": ("false",),
    "sequence.snapshot-ordering": ("false",),
    "pk-clustering-override": ("false",),
    "chain-table.enabled": ("false",),
    "query-auth.enabled": ("false",),
    "primary-key.nullable": ("false",),
    "scan.mode": ("default", "latest-full", "full", "latest", "from-snapshot", "from-snapshot-full", "from-timestamp"),
    "batch-scan-mode": ("none",),
}
"""Options with a meaning for reads that Morrow handles only at these values (their defaults)."""

REFUSED = (
    "scan.primary-branch",
    "scan.bucket",
    "scan.file-creation-time-millis",
    "scan.creation-time-millis",
    "incremental-between",
    "incremental-between-timestamp",
    "incremental-to-auto-tag",
    "vector-field",
    "vector.file.format",
    "blob-descriptor-field",
    "blob-view-field",
)
"""Options whose mere presence changes what a read returns."""

REFUSED_SUFFIXES = (".map.storage-layout", ".map-storage-layout")


@dataclass(frozen=True)
class TableOptions:
    """The options of a table that reads depend on, parsed; `raw` holds all of them as text."""

    raw: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)
    merge_engine: str = "deduplicate"
    bucket: int = -1
    bucket_key: tuple[str, ...] = ()
    bucket_function: str = "default"
    file_format: str = "parquet"
    deletion_vectors: bool = False
    looks_up: bool = False
    ignore_delete: bool = False
    sequence_fields: tuple[str, ...] = ()
    sequence_descending: bool = False
    partition_default_name: str = DEFAULT_PARTITION_NAME
    legacy_partition_name: bool = True
    data_directory: str | None = None
    external_roots: tuple[str, ...] = ()
    index_in_data_dir: bool = False
    file_index_enabled: bool = True
    row_tracking: bool = False
    data_evolution: bool = False
    fallback_branch: str | None = None
    travel: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def skips_level_zero(self) -> bool:
        """Whether batch reads see only what compaction has lifted above level 0."""
        return self.deletion_vectors or self.merge_engine == "first-row"


def parse_options(raw: Mapping[str, str], *, where: str) -> TableOptions:
    """Parse and check the options of one schema; `where` (table folder) goes into errors.

    Raises:
        Unsupported: an option at a value that changes what reads return and that Morrow does not handle.
        InvalidArgument: a value that does not parse.
    """
    _refuse(raw, where)
    return TableOptions(
        raw=dict(raw),
        merge_engine=_merge_engine(raw, where),
        bucket=integer(raw, "bucket", -1, where),
        bucket_key=names(raw.get("bucket-key")),
        bucket_function=choice(raw, "bucket-function.type", "default", BUCKET_FUNCTIONS, where),
        file_format=raw.get("file.format", "parquet").lower(),
        deletion_vectors=flag(raw, "deletion-vectors.enabled", False, where),
        looks_up=_looks_up(raw, where),
        ignore_delete=next((flag(raw, key, False, where) for key in IGNORE_DELETE_KEYS if key in raw), False),
        sequence_fields=names(raw.get("sequence.field")),
        sequence_descending=choice(raw, "sequence.field.sort-order", "ascending", ("ascending", "descending"), where)
        == "descending",
        partition_default_name=raw.get("partition.default-name", DEFAULT_PARTITION_NAME),
        legacy_partition_name=flag(raw, "partition.legacy-name", True, where),
        data_directory=_folder(raw.get("data-file.path-directory"), where),
        external_roots=names(raw.get("data-file.external-paths")),
        index_in_data_dir=flag(raw, "index-file-in-data-file-dir", False, where),
        file_index_enabled=flag(raw, "file-index.read.enabled", True, where),
        row_tracking=flag(raw, "row-tracking.enabled", False, where),
        data_evolution=flag(raw, "data-evolution.enabled", False, where),
        fallback_branch=raw.get("scan.fallback-branch"),
        travel={key: raw[key] for key in TRAVEL_KEYS if key in raw},
    )


def _refuse(raw: Mapping[str, str], where: str) -> None:
    for key, allowed in REFUSED_UNLESS.items():
        value = raw.get(key)
        if value is not None and value.strip().lower() not in allowed:
            raise Unsupported(
                f"the option {key!r} = {value!r}", where=where, hint="it changes which rows a read returns"
            )
    for key in raw:
        if key in REFUSED or key.endswith(REFUSED_SUFFIXES):
            raise Unsupported(f"the option {key!r}", where=where, hint="it changes which rows a read returns")


def _looks_up(raw: Mapping[str, str], where: str) -> bool:
    """Whether compactions look up the rows that a key has in higher levels."""
    vectors = flag(raw, "deletion-vectors.enabled", False, where) or flag(raw, "force-lookup", False, where)
    return vectors or raw.get("changelog-producer", "none").strip().lower() == "lookup"


def _merge_engine(raw: Mapping[str, str], where: str) -> str:
    """A built-in engine, or one that an installed package registers."""
    name = raw.get("merge-engine", "").strip().lower()
    registered = () if not name or name in MERGE_ENGINES else tuple(entry_points(group=MERGE_ENGINE_PLUGINS).names)
    return choice(raw, "merge-engine", "deduplicate", (*MERGE_ENGINES, *registered), where)


def _folder(value: str | None, where: str) -> str | None:
    if value is None:
        return None
    folder = value.strip("/")
    if ".." in folder.split("/"):
        raise InvalidArgument(f"{where}: the option 'data-file.path-directory' = {value!r} leads outside of the table")
    return folder or None
