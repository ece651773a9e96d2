"""What the options of a table say about writing it: files, buffers, compaction, changelog, manifests, commits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from morrow.engine.errors import InvalidArgument
from morrow.engine.options.parsing import choice, duration, flag, integer, key_values, memory, names, number
from morrow.engine.options.registry import refuse_unhonoured, resolved

MIB = 1 << 20
APPEND_TARGET_FILE_SIZE = 256 * MIB
KEYED_TARGET_FILE_SIZE = 128 * MIB
MOST_LEVELS = 2**31 - 1


class ChangelogProducer(StrEnum):
    """Where changelog files come from."""

    NONE = "none"
    INPUT = "input"
    LOOKUP = "lookup"
    FULL_COMPACTION = "full-compaction"


class LookupCompact(StrEnum):
    """How eagerly level 0 is compacted where lookups need it: at each write, or within an interval of writes."""

    RADICAL = "radical"
    GENTLE = "gentle"


@dataclass(frozen=True)
class WriteOptions:
    """The options that writers depend on, parsed; sizes are bytes, and defaults those of a table with a primary key."""

    raw: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)
    # Files
    file_format: str = "parquet"
    format_per_level: Mapping[int, str] = field(default_factory=dict, hash=False)
    compression: str = "zstd"
    compression_per_level: Mapping[int, str] = field(default_factory=dict, hash=False)
    zstd_level: int = 1
    block_size: int | None = None
    target_file_size: int = KEYED_TARGET_FILE_SIZE
    data_file_prefix: str = "data-"
    thin_mode: bool = False
    stats_mode: str = "truncate(16)"
    stats_mode_per_level: Mapping[int, str] = field(default_factory=dict, hash=False)
    stats_dense_store: bool = True
    stats_keep_first: int = -1
    suffix_includes_compression: bool = False
    file_index_in_manifest: int = 500
    # Changelog
    changelog_producer: ChangelogProducer = ChangelogProducer.NONE
    changelog_row_deduplicate: bool = False
    changelog_ignored_fields: tuple[str, ...] = ()
    changelog_file_prefix: str = "changelog-"
    changelog_format: str | None = None
    changelog_compression: str | None = None
    changelog_stats_mode: str | None = None
    # Buffers
    write_only: bool = False
    write_buffer: int = 256 * MIB
    spillable: bool = True
    rowkind_field: str | None = None
    ignore_update_before: bool = False
    delete_rows_for_changelog: bool = False
    # Buckets
    dynamic_bucket_rows: int = 2_000_000
    dynamic_bucket_initial: int | None = None
    dynamic_bucket_most: int = -1
    dynamic_partition_overwrite: bool = True
    overwrite_upgrade: bool = True
    postpone_buckets: int = 1
    # Compaction
    run_trigger: int = 5
    run_stop_trigger: int = 8
    levels: int = 6
    size_amplification: int = 200
    size_ratio: int = 1
    force_up_level_zero: bool = False
    off_peak_hours: tuple[int, int] | None = None
    off_peak_size_ratio: int = 0
    optimization_interval: timedelta | None = None
    total_size_threshold: int | None = None
    incremental_size_threshold: int | None = None
    file_num_limit: int = 100_000
    append_min_files: int = 5
    delete_ratio: float = 0.2
    force_rewrite_all: bool = False
    full_compaction_commits: int | None = None
    force_lookup: bool = False
    lookup_wait: bool = True
    lookup_compact: LookupCompact = LookupCompact.RADICAL
    lookup_compact_interval: int = 10
    bucket_append_ordered: bool = True
    incremental_clustering: bool = False
    # Deletion vectors
    deletion_vectors: bool = False
    bitmap64: bool = False
    deletion_file_size: int = 2 * MIB
    # Manifests and commits
    manifest_format: str = "avro"
    manifest_compression: str = "zstd"
    manifest_target_size: int = 8 * MIB
    manifest_full_compaction: int = 16 * MIB
    manifest_merge_count: int = 30
    manifest_drop_stats: bool = False
    force_compact: bool = False
    commit_timeout: timedelta | None = None
    commit_retries: int = 10
    commit_min_wait: timedelta = timedelta(milliseconds=10)
    commit_max_wait: timedelta = timedelta(seconds=10)
    force_create_snapshot: bool = False
    commit_user_prefix: str | None = None

    @property
    def max_level(self) -> int:
        """The bottom level of the merge tree."""
        return self.levels - 1

    def format_of(self, level: int) -> str:
        """The file format of data files at this level."""
        return self.format_per_level.get(level, self.file_format)

    def compression_of(self, level: int) -> str:
        """The codec of data files at this level."""
        return self.compression_per_level.get(level, self.compression)


def parse_write_options(raw: Mapping[str, str], *, keyed: bool, where: str) -> WriteOptions:
    """Parse the options that writers depend on.

    Args:
        keyed: whether the table has a primary key, on which some defaults depend.

    Raises:
        InvalidArgument: a value that does not parse.
        Unsupported: a choice that Morrow does not know, or an option that its writers would not honour.
    """
    refuse_unhonoured(raw, where)
    raw = resolved(raw)
    trigger = integer(raw, "num-sorted-run.compaction-trigger", 5, where)
    default_size = KEYED_TARGET_FILE_SIZE if keyed else APPEND_TARGET_FILE_SIZE
    producers = tuple(ChangelogProducer)
    return WriteOptions(
        raw=dict(raw),
        file_format=raw.get("file.format", "parquet").strip().lower(),
        format_per_level=_per_level(raw, "file.format.per.level", where),
        compression=raw.get("file.compression", "zstd").strip().lower(),
        compression_per_level=_per_level(raw, "file.compression.per.level", where),
        zstd_level=integer(raw, "file.compression.zstd-level", 1, where),
        block_size=memory(raw, "file.block-size", None, where),
        target_file_size=memory(raw, "target-file-size", default_size, where) or default_size,
        data_file_prefix=raw.get("data-file.prefix", "data-"),
        thin_mode=flag(raw, "data-file.thin-mode", False, where),
        stats_mode=raw.get("metadata.stats-mode", "truncate(16)").strip().lower(),
        stats_mode_per_level=_per_level(raw, "metadata.stats-mode.per.level", where),
        stats_dense_store=flag(raw, "metadata.stats-dense-store", True, where),
        stats_keep_first=integer(raw, "metadata.stats-keep-first-n-columns", -1, where),
        suffix_includes_compression=flag(raw, "file.suffix.include.compression", False, where),
        file_index_in_manifest=memory(raw, "file-index.in-manifest-threshold", 500, where) or 0,
        changelog_producer=ChangelogProducer(choice(raw, "changelog-producer", "none", producers, where)),
        changelog_row_deduplicate=flag(raw, "changelog-producer.row-deduplicate", False, where),
        changelog_ignored_fields=names(raw.get("changelog-producer.row-deduplicate-ignore-fields")),
        changelog_file_prefix=raw.get("changelog-file.prefix", "changelog-"),
        changelog_format=raw.get("changelog-file.format"),
        changelog_compression=raw.get("changelog-file.compression"),
        changelog_stats_mode=raw.get("changelog-file.stats-mode"),
        write_only=flag(raw, "write-only", False, where),
        write_buffer=memory(raw, "write-buffer-size", 256 * MIB, where) or 256 * MIB,
        spillable=flag(raw, "write-buffer-spillable", True, where),
        rowkind_field=raw.get("rowkind.field"),
        ignore_update_before=flag(raw, "ignore-update-before", False, where),
        delete_rows_for_changelog=flag(raw, "delete.force-produce-changelog", False, where),
        dynamic_bucket_rows=integer(raw, "dynamic-bucket.target-row-num", 2_000_000, where),
        dynamic_bucket_initial=integer(raw, "dynamic-bucket.initial-buckets", 0, where) or None,
        dynamic_bucket_most=integer(raw, "dynamic-bucket.max-buckets", -1, where),
        dynamic_partition_overwrite=flag(raw, "dynamic-partition-overwrite", True, where),
        overwrite_upgrade=flag(raw, "overwrite-upgrade", True, where),
        postpone_buckets=integer(raw, "postpone.default-bucket-num", 1, where),
        run_trigger=trigger,
        run_stop_trigger=max(trigger, integer(raw, "num-sorted-run.stop-trigger", trigger + 3, where)),
        levels=integer(raw, "num-levels", trigger + 1, where),
        size_amplification=integer(raw, "compaction.max-size-amplification-percent", 200, where),
        size_ratio=integer(raw, "compaction.size-ratio", 1, where),
        force_up_level_zero=flag(raw, "compaction.force-up-level-0", False, where),
        off_peak_hours=_off_peak_hours(raw, where),
        off_peak_size_ratio=integer(raw, "compaction.offpeak-ratio", 0, where),
        optimization_interval=duration(raw, "compaction.optimization-interval", None, where),
        total_size_threshold=memory(raw, "compaction.total-size-threshold", None, where),
        incremental_size_threshold=memory(raw, "compaction.incremental-size-threshold", None, where),
        file_num_limit=integer(raw, "compaction.file-num-limit", 100_000, where),
        append_min_files=integer(raw, "compaction.min.file-num", 5, where),
        delete_ratio=number(raw, "compaction.delete-ratio-threshold", 0.2, where),
        force_rewrite_all=flag(raw, "compaction.force-rewrite-all-files", False, where),
        full_compaction_commits=integer(raw, "full-compaction.delta-commits", 0, where) or None,
        lookup_wait=flag(raw, "lookup-wait", True, where),
        force_lookup=flag(raw, "force-lookup", False, where),
        lookup_compact=LookupCompact(choice(raw, "lookup-compact", "radical", tuple(LookupCompact), where)),
        lookup_compact_interval=max(trigger, integer(raw, "lookup-compact.max-interval", 2 * trigger, where)),
        bucket_append_ordered=flag(raw, "bucket-append-ordered", True, where),
        incremental_clustering=flag(raw, "clustering.incremental", False, where),
        deletion_vectors=flag(raw, "deletion-vectors.enabled", False, where),
        bitmap64=flag(raw, "deletion-vectors.bitmap64", False, where),
        deletion_file_size=memory(raw, "deletion-vector.index-file.target-size", 2 * MIB, where) or 2 * MIB,
        manifest_format=raw.get("manifest.format", "avro").strip().lower(),
        manifest_compression=raw.get("manifest.compression", "zstd").strip().lower(),
        manifest_target_size=memory(raw, "manifest.target-file-size", 8 * MIB, where) or 8 * MIB,
        manifest_full_compaction=memory(raw, "manifest.full-compaction-threshold-size", 16 * MIB, where) or 0,
        manifest_merge_count=integer(raw, "manifest.merge-min-count", 30, where),
        manifest_drop_stats=flag(raw, "manifest.delete-file-drop-stats", False, where),
        force_compact=flag(raw, "commit.force-compact", False, where),
        commit_timeout=duration(raw, "commit.timeout", None, where),
        commit_retries=integer(raw, "commit.max-retries", 10, where),
        commit_min_wait=duration(raw, "commit.min-retry-wait", None, where) or timedelta(milliseconds=10),
        commit_max_wait=duration(raw, "commit.max-retry-wait", None, where) or timedelta(seconds=10),
        # Both ask for a snapshot of a commit that has nothing to commit.
        force_create_snapshot=flag(raw, "commit.force-create-snapshot", False, where)
        or not flag(raw, "snapshot.ignore-empty-commit", True, where),
        commit_user_prefix=raw.get("commit.user-prefix"),
    )


def _off_peak_hours(raw: Mapping[str, str], where: str) -> tuple[int, int] | None:
    """From the first hour to before the second, which may be on the next day; None when there are none."""
    start, end = (integer(raw, f"compaction.offpeak.{what}.hour", -1, where) for what in ("start", "end"))
    return None if -1 in (start, end) or start == end else (start, end)


def _per_level(raw: Mapping[str, str], key: str, where: str) -> Mapping[int, str]:
    levels: dict[int, str] = {}
    for level, value in key_values(raw, key, where).items():
        if not level.isdigit():
            raise InvalidArgument(f"{where}: the option {key!r} names the level {level!r}; write 0:avro,1:parquet")
        levels[int(level)] = value.lower()
    return levels
