"""The options for writing a table: files, buffers, compaction, changelog, manifests, commits."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec

from morrow.engine.options.declared import commits, compaction, files, merging, scans, table
from morrow.engine.options.declaring import Declared, Stage
from morrow.engine.options.given import Options
from morrow.engine.options.registry import refuse
from morrow.engine.options.views import option, values
from morrow.engine.options.words import ChangelogProducer, LookupCompact

APPEND_TARGET_FILE_SIZE = 256 << 20
KEYED_TARGET_FILE_SIZE = 128 << 20
RUNS_ABOVE_TRIGGER = 3
NO_HOUR = -1


class WriteOptions(msgspec.Struct, frozen=True):
    """The options that writers depend on, parsed; sizes are in bytes, defaults those of a table with a primary key."""

    given: Options = msgspec.field(default_factory=Options)
    # Files
    file_format: str = option(files.FILE_FORMAT)
    format_per_level: Mapping[int, str] = option(files.FILE_FORMAT_PER_LEVEL)
    compression: str = option(files.FILE_COMPRESSION)
    compression_per_level: Mapping[int, str] = option(files.FILE_COMPRESSION_PER_LEVEL)
    zstd_level: int = option(files.FILE_COMPRESSION_ZSTD_LEVEL)
    block_size: int | None = option(files.FILE_BLOCK_SIZE)
    target_file_size: int = KEYED_TARGET_FILE_SIZE
    data_file_prefix: str = option(files.DATA_FILE_PREFIX)
    thin_mode: bool = option(files.DATA_FILE_THIN_MODE)
    stats_mode: str = option(files.METADATA_STATS_MODE)
    stats_mode_per_level: Mapping[int, str] = option(files.METADATA_STATS_MODE_PER_LEVEL)
    stats_dense_store: bool = option(files.METADATA_STATS_DENSE_STORE)
    stats_keep_first: int = option(files.METADATA_STATS_KEEP_FIRST_N_COLUMNS)
    suffix_includes_compression: bool = option(files.FILE_SUFFIX_INCLUDE_COMPRESSION)
    file_index_in_manifest: int = option(files.FILE_INDEX_IN_MANIFEST_THRESHOLD)
    # Changelog
    changelog_producer: ChangelogProducer = option(merging.CHANGELOG_PRODUCER)
    changelog_row_deduplicate: bool = option(merging.CHANGELOG_PRODUCER_ROW_DEDUPLICATE)
    changelog_ignored_fields: tuple[str, ...] = option(merging.CHANGELOG_PRODUCER_ROW_DEDUPLICATE_IGNORE_FIELDS)
    changelog_file_prefix: str = option(files.CHANGELOG_FILE_PREFIX)
    changelog_format: str | None = option(files.CHANGELOG_FILE_FORMAT)
    changelog_compression: str | None = option(files.CHANGELOG_FILE_COMPRESSION)
    changelog_stats_mode: str | None = option(files.CHANGELOG_FILE_STATS_MODE)
    # Buffers
    write_only: bool = option(compaction.WRITE_ONLY)
    write_buffer: int = option(files.WRITE_BUFFER_SIZE)
    spillable: bool = option(files.WRITE_BUFFER_SPILLABLE)
    rowkind_field: str | None = option(merging.ROWKIND_FIELD)
    ignore_update_before: bool = option(merging.IGNORE_UPDATE_BEFORE)
    delete_rows_for_changelog: bool = option(merging.DELETE_FORCE_PRODUCE_CHANGELOG)
    # Buckets
    dynamic_bucket_rows: int = option(table.DYNAMIC_BUCKET_TARGET_ROW_NUM)
    dynamic_bucket_initial: int | None = option(table.DYNAMIC_BUCKET_INITIAL_BUCKETS)
    dynamic_bucket_most: int = option(table.DYNAMIC_BUCKET_MAX_BUCKETS)
    dynamic_partition_overwrite: bool = option(commits.DYNAMIC_PARTITION_OVERWRITE)
    overwrite_upgrade: bool = option(compaction.OVERWRITE_UPGRADE)
    postpone_buckets: int = option(table.POSTPONE_DEFAULT_BUCKET_NUM)
    postpone_fixed: bool = option(table.POSTPONE_BATCH_WRITE_FIXED_BUCKET)
    # Compaction
    run_trigger: int = option(compaction.NUM_SORTED_RUN_COMPACTION_TRIGGER)
    run_stop_trigger: int = compaction.NUM_SORTED_RUN_COMPACTION_TRIGGER.default + RUNS_ABOVE_TRIGGER
    levels: int = compaction.NUM_SORTED_RUN_COMPACTION_TRIGGER.default + 1
    size_amplification: int = option(compaction.COMPACTION_MAX_SIZE_AMPLIFICATION_PERCENT)
    size_ratio: int = option(compaction.COMPACTION_SIZE_RATIO)
    force_up_level_zero: bool = option(compaction.COMPACTION_FORCE_UP_LEVEL_0)
    off_peak_hours: tuple[int, int] | None = None
    off_peak_size_ratio: int = option(compaction.COMPACTION_OFFPEAK_RATIO)
    optimization_interval: timedelta | None = option(compaction.COMPACTION_OPTIMIZATION_INTERVAL)
    total_size_threshold: int | None = option(compaction.COMPACTION_TOTAL_SIZE_THRESHOLD)
    incremental_size_threshold: int | None = option(compaction.COMPACTION_INCREMENTAL_SIZE_THRESHOLD)
    file_num_limit: int = option(compaction.COMPACTION_FILE_NUM_LIMIT)
    append_min_files: int = option(compaction.COMPACTION_MIN_FILE_NUM)
    small_file_ratio: float = option(compaction.COMPACTION_SMALL_FILE_RATIO)
    open_file_cost: int = option(scans.SOURCE_SPLIT_OPEN_FILE_COST)
    delete_ratio: float = option(compaction.COMPACTION_DELETE_RATIO_THRESHOLD)
    force_rewrite_all: bool = option(compaction.COMPACTION_FORCE_REWRITE_ALL_FILES)
    full_compaction_commits: int | None = option(compaction.FULL_COMPACTION_DELTA_COMMITS)
    force_lookup: bool = option(merging.FORCE_LOOKUP)
    lookup_wait: bool = option(merging.LOOKUP_WAIT)
    lookup_compact: LookupCompact = option(merging.LOOKUP_COMPACT)
    lookup_compact_interval: int = 2 * compaction.NUM_SORTED_RUN_COMPACTION_TRIGGER.default
    bucket_append_ordered: bool = option(table.BUCKET_APPEND_ORDERED)
    incremental_clustering: bool = option(compaction.CLUSTERING_INCREMENTAL)
    # Deletion vectors
    deletion_vectors: bool = option(merging.DELETION_VECTORS_ENABLED)
    bitmap64: bool = option(merging.DELETION_VECTORS_BITMAP64)
    deletion_file_size: int = option(merging.DELETION_VECTOR_INDEX_FILE_TARGET_SIZE)
    # Manifests and commits
    manifest_format: str = option(commits.MANIFEST_FORMAT)
    manifest_compression: str = option(commits.MANIFEST_COMPRESSION)
    manifest_target_size: int = option(commits.MANIFEST_TARGET_FILE_SIZE)
    manifest_full_compaction: int = option(commits.MANIFEST_FULL_COMPACTION_THRESHOLD_SIZE)
    manifest_merge_count: int = option(commits.MANIFEST_MERGE_MIN_COUNT)
    manifest_drop_stats: bool = option(commits.MANIFEST_DELETE_FILE_DROP_STATS)
    force_compact: bool = option(compaction.COMMIT_FORCE_COMPACT)
    commit_timeout: timedelta | None = option(commits.COMMIT_TIMEOUT)
    commit_retries: int = option(commits.COMMIT_MAX_RETRIES)
    commit_min_wait: timedelta = option(commits.COMMIT_MIN_RETRY_WAIT)
    commit_max_wait: timedelta = option(commits.COMMIT_MAX_RETRY_WAIT)
    force_create_snapshot: bool = option(commits.COMMIT_FORCE_CREATE_SNAPSHOT)
    commit_user_prefix: str | None = option(commits.COMMIT_USER_PREFIX)

    def __hash__(self) -> int:
        return hash(self.given)

    @property
    def raw(self) -> Mapping[str, str]:
        """All options as text, including those for other software."""
        return self.given.raw

    @property
    def max_level(self) -> int:
        """The bottom level of the merge tree."""
        return self.levels - 1

    def format_of(self, level: int) -> str:
        """Returns the file format of data files at this level."""
        return self.format_per_level.get(level, self.file_format)

    def compression_of(self, level: int) -> str:
        """Returns the codec of data files at this level."""
        return self.compression_per_level.get(level, self.compression)


def parse_write_options(raw: Mapping[str, str], *, keyed: bool, where: str) -> WriteOptions:
    """Parses the options that writers depend on.

    Args:
        keyed: whether the table has a primary key, on which some defaults depend.

    Raises:
        InvalidArgument: a value that does not parse.
        Unsupported: an unknown choice, or an option that Morrow's writers would not honour.
    """
    refuse(raw, where, Stage.WRITING)
    options = Options(dict(raw), where)
    parsed = values(WriteOptions, options) | _triggers(options) | _nothing_for_zero(options)
    target = KEYED_TARGET_FILE_SIZE if keyed else APPEND_TARGET_FILE_SIZE
    return WriteOptions(
        given=options,
        **parsed
        | {
            "target_file_size": options.get(files.TARGET_FILE_SIZE) or target,
            "off_peak_hours": _off_peak_hours(options),
            # Both ask for a snapshot of an empty commit.
            "force_create_snapshot": parsed["force_create_snapshot"]
            or not options.get(commits.SNAPSHOT_IGNORE_EMPTY_COMMIT),
        },
    )


def levels_of(options: Options) -> int:
    """Returns the number of levels of a merge tree: one above the compaction trigger, if not set."""
    given = options.get(compaction.NUM_LEVELS)
    return options.get(compaction.NUM_SORTED_RUN_COMPACTION_TRIGGER) + 1 if given is None else given


def _triggers(options: Options) -> dict[str, Any]:
    """Returns the options whose defaults follow the compaction trigger."""
    trigger = options.get(compaction.NUM_SORTED_RUN_COMPACTION_TRIGGER)
    stop = options.get(compaction.NUM_SORTED_RUN_STOP_TRIGGER)
    interval = options.get(merging.LOOKUP_COMPACT_MAX_INTERVAL)
    return {
        "run_stop_trigger": max(trigger, trigger + RUNS_ABOVE_TRIGGER if stop is None else stop),
        "levels": levels_of(options),
        "lookup_compact_interval": max(trigger, 2 * trigger if interval is None else interval),
    }


def _nothing_for_zero(options: Options) -> dict[str, Any]:
    """Returns options for which 0 means unset: no file, buffer or count has that size."""
    declared: dict[str, Declared[Any]] = {
        "write_buffer": files.WRITE_BUFFER_SIZE,
        "deletion_file_size": merging.DELETION_VECTOR_INDEX_FILE_TARGET_SIZE,
        "manifest_target_size": commits.MANIFEST_TARGET_FILE_SIZE,
        "dynamic_bucket_initial": table.DYNAMIC_BUCKET_INITIAL_BUCKETS,
        "full_compaction_commits": compaction.FULL_COMPACTION_DELTA_COMMITS,
        "commit_min_wait": commits.COMMIT_MIN_RETRY_WAIT,
        "commit_max_wait": commits.COMMIT_MAX_RETRY_WAIT,
    }
    return {name: options.get(each) or each.default for name, each in declared.items()}


def _off_peak_hours(options: Options) -> tuple[int, int] | None:
    """Returns the first hour and the hour after the last, which may be on the next day; None when there are none."""
    start = options.get(compaction.COMPACTION_OFFPEAK_START_HOUR)
    end = options.get(compaction.COMPACTION_OFFPEAK_END_HOUR)
    return None if NO_HOUR in (start, end) or start == end else (start, end)
