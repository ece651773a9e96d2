"""The options for writing a table: files, buffers, compaction, changelog, manifests, commits."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec

from morrow.engine.errors import Unsupported
from morrow.engine.format.paths import POSTPONE_BUCKET, normalize_path
from morrow.engine.options.declarations import (
    ChangelogProducer,
    Declared,
    LookupCompact,
    Options,
    Stage,
    bind_option,
    read_values,
)
from morrow.engine.options.declared import features, files, maintenance, merging, scans, table
from morrow.engine.options.table_options import refuse_options

APPEND_TARGET_FILE_SIZE = 256 << 20
KEYED_TARGET_FILE_SIZE = 128 << 20
RUNS_ABOVE_TRIGGER = 3
NO_HOUR = -1


class WriteOptions(msgspec.Struct, frozen=True):
    """The options that writers depend on, parsed; sizes are in bytes, defaults are for a table with a primary key."""

    given: Options = msgspec.field(default_factory=Options)
    # Files
    file_format: str = bind_option(files.FILE_FORMAT)
    format_per_level: Mapping[int, str] = bind_option(files.FILE_FORMAT_PER_LEVEL)
    compression: str = bind_option(files.FILE_COMPRESSION)
    compression_per_level: Mapping[int, str] = bind_option(files.FILE_COMPRESSION_PER_LEVEL)
    zstd_level: int = bind_option(files.FILE_COMPRESSION_ZSTD_LEVEL)
    block_size: int | None = bind_option(files.FILE_BLOCK_SIZE)
    target_file_size: int = KEYED_TARGET_FILE_SIZE
    data_file_prefix: str = bind_option(files.DATA_FILE_PREFIX)
    external_strategy: str = bind_option(table.DATA_FILE_EXTERNAL_PATHS_STRATEGY)
    external_scheme: str | None = bind_option(table.DATA_FILE_EXTERNAL_PATHS_SPECIFIC_FS)
    external_weights: tuple[str, ...] = bind_option(table.DATA_FILE_EXTERNAL_PATHS_WEIGHTS)
    thin_mode: bool = bind_option(files.DATA_FILE_THIN_MODE)
    stats_mode: str = bind_option(files.METADATA_STATS_MODE)
    stats_mode_per_level: Mapping[int, str] = bind_option(files.METADATA_STATS_MODE_PER_LEVEL)
    stats_dense_store: bool = bind_option(files.METADATA_STATS_DENSE_STORE)
    stats_keep_first: int = bind_option(files.METADATA_STATS_KEEP_FIRST_N_COLUMNS)
    suffix_includes_compression: bool = bind_option(files.FILE_SUFFIX_INCLUDE_COMPRESSION)
    file_index_in_manifest: int = bind_option(files.FILE_INDEX_IN_MANIFEST_THRESHOLD)
    # Changelog
    changelog_producer: ChangelogProducer = bind_option(merging.CHANGELOG_PRODUCER)
    changelog_row_deduplicate: bool = bind_option(merging.CHANGELOG_PRODUCER_ROW_DEDUPLICATE)
    changelog_ignored_fields: tuple[str, ...] = bind_option(merging.CHANGELOG_PRODUCER_ROW_DEDUPLICATE_IGNORE_FIELDS)
    changelog_file_prefix: str = bind_option(files.CHANGELOG_FILE_PREFIX)
    changelog_format: str | None = bind_option(files.CHANGELOG_FILE_FORMAT)
    changelog_compression: str | None = bind_option(files.CHANGELOG_FILE_COMPRESSION)
    changelog_stats_mode: str | None = bind_option(files.CHANGELOG_FILE_STATS_MODE)
    # Buffers
    write_only: bool = bind_option(maintenance.WRITE_ONLY)
    write_buffer: int = bind_option(files.WRITE_BUFFER_SIZE)
    spillable: bool = bind_option(files.WRITE_BUFFER_SPILLABLE)
    rowkind_field: str | None = bind_option(merging.ROWKIND_FIELD)
    ignore_update_before: bool = bind_option(merging.IGNORE_UPDATE_BEFORE)
    delete_rows_for_changelog: bool = bind_option(merging.DELETE_FORCE_PRODUCE_CHANGELOG)
    # Blobs
    blob_target_file_size: int | None = bind_option(features.BLOB_TARGET_FILE_SIZE)
    blob_compaction: bool = bind_option(features.BLOB_COMPACTION_ENABLED)
    descriptor_blobs: tuple[str, ...] = bind_option(features.BLOB_DESCRIPTOR_FIELD)
    view_blobs: tuple[str, ...] = bind_option(features.BLOB_VIEW_FIELD)
    null_on_missing_blob: bool = bind_option(features.BLOB_WRITE_NULL_ON_MISSING_FILE)
    null_on_failing_blob: bool = bind_option(features.BLOB_WRITE_NULL_ON_FETCH_FAILURE)
    # Buckets
    dynamic_bucket_rows: int = bind_option(table.DYNAMIC_BUCKET_TARGET_ROW_NUM)
    dynamic_bucket_initial: int | None = bind_option(table.DYNAMIC_BUCKET_INITIAL_BUCKETS)
    dynamic_bucket_most: int = bind_option(table.DYNAMIC_BUCKET_MAX_BUCKETS)
    dynamic_partition_overwrite: bool = bind_option(maintenance.DYNAMIC_PARTITION_OVERWRITE)
    overwrite_upgrade: bool = bind_option(maintenance.OVERWRITE_UPGRADE)
    postpone_buckets: int = bind_option(table.POSTPONE_DEFAULT_BUCKET_NUM)
    postpone_bucket_rows: int | None = bind_option(table.POSTPONE_TARGET_ROW_NUM_PER_BUCKET)
    postpone_bucket_bytes: int = bind_option(table.POSTPONE_TARGET_SIZE_PER_BUCKET)
    postpone_max_buckets: int = bind_option(table.POSTPONE_BATCH_WRITE_FIXED_BUCKET_MAX_PARALLELISM)
    postpone_fixed: bool = bind_option(table.POSTPONE_BATCH_WRITE_FIXED_BUCKET)
    # Compaction
    run_trigger: int = bind_option(maintenance.NUM_SORTED_RUN_COMPACTION_TRIGGER)
    run_stop_trigger: int = maintenance.NUM_SORTED_RUN_COMPACTION_TRIGGER.default + RUNS_ABOVE_TRIGGER
    levels: int = maintenance.NUM_SORTED_RUN_COMPACTION_TRIGGER.default + 1
    size_amplification: int = bind_option(maintenance.COMPACTION_MAX_SIZE_AMPLIFICATION_PERCENT)
    size_ratio: int = bind_option(maintenance.COMPACTION_SIZE_RATIO)
    force_up_level_zero: bool = bind_option(maintenance.COMPACTION_FORCE_UP_LEVEL_0)
    off_peak_hours: tuple[int, int] | None = None
    off_peak_size_ratio: int = bind_option(maintenance.COMPACTION_OFFPEAK_RATIO)
    optimization_interval: timedelta | None = bind_option(maintenance.COMPACTION_OPTIMIZATION_INTERVAL)
    total_size_threshold: int | None = bind_option(maintenance.COMPACTION_TOTAL_SIZE_THRESHOLD)
    incremental_size_threshold: int | None = bind_option(maintenance.COMPACTION_INCREMENTAL_SIZE_THRESHOLD)
    file_num_limit: int = bind_option(maintenance.COMPACTION_FILE_NUM_LIMIT)
    append_min_files: int = bind_option(maintenance.COMPACTION_MIN_FILE_NUM)
    small_file_ratio: float = bind_option(maintenance.COMPACTION_SMALL_FILE_RATIO)
    open_file_cost: int = bind_option(scans.SOURCE_SPLIT_OPEN_FILE_COST)
    delete_ratio: float = bind_option(maintenance.COMPACTION_DELETE_RATIO_THRESHOLD)
    force_rewrite_all: bool = bind_option(maintenance.COMPACTION_FORCE_REWRITE_ALL_FILES)
    full_compaction_commits: int | None = bind_option(maintenance.FULL_COMPACTION_DELTA_COMMITS)
    force_lookup: bool = bind_option(merging.FORCE_LOOKUP)
    lookup_wait: bool = bind_option(merging.LOOKUP_WAIT)
    lookup_compact: LookupCompact = bind_option(merging.LOOKUP_COMPACT)
    lookup_compact_interval: int = 2 * maintenance.NUM_SORTED_RUN_COMPACTION_TRIGGER.default
    bucket_append_ordered: bool = bind_option(table.BUCKET_APPEND_ORDERED)
    clustering_columns: tuple[str, ...] = bind_option(maintenance.CLUSTERING_COLUMNS)
    clustering_strategy: str = bind_option(maintenance.CLUSTERING_STRATEGY)
    incremental_clustering: bool = bind_option(maintenance.CLUSTERING_INCREMENTAL)
    record_expire_time: timedelta | None = bind_option(merging.RECORD_LEVEL_EXPIRE_TIME)
    record_time_field: str | None = bind_option(merging.RECORD_LEVEL_TIME_FIELD)
    # Deletion vectors
    deletion_vectors: bool = bind_option(merging.DELETION_VECTORS_ENABLED)
    bitmap64: bool = bind_option(merging.DELETION_VECTORS_BITMAP64)
    deletion_file_size: int = bind_option(merging.DELETION_VECTOR_INDEX_FILE_TARGET_SIZE)
    # Manifests and commits
    groups_row_ids: bool = bind_option(table.ROW_TRACKING_PARTITION_GROUP_ON_COMMIT)
    manifest_format: str = bind_option(maintenance.MANIFEST_FORMAT)
    manifest_compression: str = bind_option(maintenance.MANIFEST_COMPRESSION)
    manifest_target_size: int = bind_option(maintenance.MANIFEST_TARGET_FILE_SIZE)
    manifest_full_compaction: int = bind_option(maintenance.MANIFEST_FULL_COMPACTION_THRESHOLD_SIZE)
    manifest_merge_count: int = bind_option(maintenance.MANIFEST_MERGE_MIN_COUNT)
    manifest_drop_stats: bool = bind_option(maintenance.MANIFEST_DELETE_FILE_DROP_STATS)
    force_compact: bool = bind_option(maintenance.COMMIT_FORCE_COMPACT)
    commit_timeout: timedelta | None = bind_option(maintenance.COMMIT_TIMEOUT)
    commit_retries: int = bind_option(maintenance.COMMIT_MAX_RETRIES)
    commit_min_wait: timedelta = bind_option(maintenance.COMMIT_MIN_RETRY_WAIT)
    commit_max_wait: timedelta = bind_option(maintenance.COMMIT_MAX_RETRY_WAIT)
    force_create_snapshot: bool = bind_option(maintenance.COMMIT_FORCE_CREATE_SNAPSHOT)
    commit_user_prefix: str | None = bind_option(maintenance.COMMIT_USER_PREFIX)

    def __hash__(self) -> int:
        return hash(self.given)

    @property
    def raw(self) -> Mapping[str, str]:
        """All options as text, including those for other software."""
        return self.given.raw

    @property
    def publishes_iceberg(self) -> bool:
        """Whether commits write metadata for readers of Iceberg."""
        return self.given.get(features.METADATA_ICEBERG_STORAGE) != "disabled"

    @property
    def max_level(self) -> int:
        """The bottom level of the merge tree."""
        return self.levels - 1

    def format_of(self, level: int) -> str:
        """Return the file format of data files at this level."""
        return self.format_per_level.get(level, self.file_format)

    def compression_of(self, level: int) -> str:
        """Return the codec of data files at this level."""
        return self.compression_per_level.get(level, self.compression)


def parse_write_options(raw: Mapping[str, str], *, keyed: bool, where: str) -> WriteOptions:
    """Parse the options that writers depend on.

    `keyed`: whether the table has a primary key, on which some defaults depend.

    Raises:
        InvalidArgument: a value that does not parse.
        Unsupported: an unknown choice, or an option that Morrow's writers would not honour.
    """
    # Java's clients store the location of external tables.
    raw = {key: value for key, value in raw.items() if key != table.PATH.key or normalize_path(value) != where}
    refuse_options(raw, where, Stage.WRITING)
    options = Options(raw, where)
    parsed = read_values(WriteOptions, options) | _read_triggers(options) | _replace_zeros(options)
    if keyed and parsed["deletion_vectors"] and parsed["changelog_producer"] is ChangelogProducer.FULL_COMPACTION:
        # Full compactions mark no replaced versions: a key would be read twice until the next one.
        raise Unsupported(
            f"a write with {merging.DELETION_VECTORS_ENABLED} and {merging.CHANGELOG_PRODUCER} = full-compaction",
            where=where,
            hint=f"set {merging.CHANGELOG_PRODUCER} to none, input or lookup, as Paimon requires",
        )
    if keyed and options.get(merging.SEQUENCE_SNAPSHOT_ORDERING):
        _check_snapshot_ordering(options, where)
    if keyed and options.get(merging.PK_VECTOR_INDEX_COLUMNS):
        _check_vector_search(options, where)
    target = KEYED_TARGET_FILE_SIZE if keyed else APPEND_TARGET_FILE_SIZE
    return WriteOptions(
        given=options,
        **parsed
        | {
            "target_file_size": options.get(files.TARGET_FILE_SIZE) or target,
            "off_peak_hours": _read_off_peak_hours(options),
            # Both request a snapshot for an empty commit.
            "force_create_snapshot": parsed["force_create_snapshot"]
            or not options.get(maintenance.SNAPSHOT_IGNORE_EMPTY_COMMIT),
        },
    )


def _check_vector_search(options: Options, where: str) -> None:
    """Raise `Unsupported` if Paimon's vector searches would leave out new rows, which have no index yet."""
    mode: Declared[Any] = features.VECTOR_INDEX_SEARCH_MODE
    if mode.key not in options.raw and features.GLOBAL_INDEX_SEARCH_MODE.key in options.raw:
        mode = features.GLOBAL_INDEX_SEARCH_MODE
    if options.get(mode) == features.FAST:
        problem = f"a write with {merging.PK_VECTOR_INDEX_COLUMNS}, whose index Morrow does not build,"
        hint = f"set {mode} to full, so that Paimon's searches read rows without an index, too"
        raise Unsupported(problem, where=where, hint=hint)


def _check_snapshot_ordering(options: Options, where: str) -> None:
    """Raise `Unsupported` for writers that merge rows before they have a snapshot, which orders them."""
    ordering = f"{merging.SEQUENCE_SNAPSHOT_ORDERING} = true"
    if not options.get(maintenance.WRITE_ONLY):
        hint = f"set {maintenance.WRITE_ONLY} = true; Table.compact compacts such tables, too"
        raise Unsupported(f"a write with {ordering} and without {maintenance.WRITE_ONLY}", where=where, hint=hint)
    if options.get(table.BUCKET) == POSTPONE_BUCKET:
        hint = "compactions would give postponed rows no snapshot of their own; set 'bucket' to 1 or more"
        raise Unsupported(f"a write with {ordering} and {table.BUCKET} = {POSTPONE_BUCKET}", where=where, hint=hint)


def count_levels(options: Options) -> int:
    """Return the number of levels of a merge tree: one above the compaction trigger, if not set."""
    given = options.get(maintenance.NUM_LEVELS)
    return options.get(maintenance.NUM_SORTED_RUN_COMPACTION_TRIGGER) + 1 if given is None else given


def _read_triggers(options: Options) -> dict[str, Any]:
    """Return the options whose defaults follow the compaction trigger."""
    trigger = options.get(maintenance.NUM_SORTED_RUN_COMPACTION_TRIGGER)
    stop = options.get(maintenance.NUM_SORTED_RUN_STOP_TRIGGER)
    interval = options.get(merging.LOOKUP_COMPACT_MAX_INTERVAL)
    return {
        "run_stop_trigger": max(trigger, trigger + RUNS_ABOVE_TRIGGER if stop is None else stop),
        "levels": count_levels(options),
        "lookup_compact_interval": max(trigger, 2 * trigger if interval is None else interval),
    }


def _replace_zeros(options: Options) -> dict[str, Any]:
    """Return options for which 0 means unset, since no file, buffer or count has that size."""
    declared: dict[str, Declared[Any]] = {
        "write_buffer": files.WRITE_BUFFER_SIZE,
        "deletion_file_size": merging.DELETION_VECTOR_INDEX_FILE_TARGET_SIZE,
        "manifest_target_size": maintenance.MANIFEST_TARGET_FILE_SIZE,
        "dynamic_bucket_initial": table.DYNAMIC_BUCKET_INITIAL_BUCKETS,
        "full_compaction_commits": maintenance.FULL_COMPACTION_DELTA_COMMITS,
        "commit_min_wait": maintenance.COMMIT_MIN_RETRY_WAIT,
        "commit_max_wait": maintenance.COMMIT_MAX_RETRY_WAIT,
    }
    return {name: options.get(each) or each.default for name, each in declared.items()}


def _read_off_peak_hours(options: Options) -> tuple[int, int] | None:
    """Return the first hour and the hour after the last, which may be on the next day; None if there are none."""
    start = options.get(maintenance.COMPACTION_OFFPEAK_START_HOUR)
    end = options.get(maintenance.COMPACTION_OFFPEAK_END_HOUR)
    return None if NO_HOUR in (start, end) or start == end else (start, end)
