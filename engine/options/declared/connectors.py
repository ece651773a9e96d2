"""Catalogs and connectors: format tables, metastores, finished partitions, Paimon for Flink, Spark and Python."""

from __future__ import annotations

from datetime import timedelta

from morrow.engine.options.declarations import (
    BOOL,
    DURATION,
    ENGINES,
    FLINK,
    INT,
    LONG,
    MEMORY,
    METASTORE,
    PYPAIMON,
    REAL,
    SPARK,
    TEXT,
    declare_honoured,
    declare_idle,
    explain_dependency,
    make_choice,
    make_choices,
)

FORMAT_TABLE_IMPLEMENTATION = declare_idle(
    explain_dependency("type"),
    "format-table.implementation",
    make_choice("paimon", "engine"),
    "paimon",
    "Who reads a format table",
)
FORMAT_TABLE_PARTITION_PATH_ONLY_VALUE = declare_idle(
    explain_dependency("type"),
    "format-table.partition-path-only-value",
    BOOL,
    False,
    "Names folders of a format table by values only",
)
FORMAT_TABLE_FILE_COMPRESSION = declare_idle(
    explain_dependency("type"), "format-table.file.compression", TEXT, None, "Codec of a format table"
)
FORMAT_TABLE_COMMIT_HIVE_SYNC_URL = declare_idle(
    explain_dependency("type"),
    "format-table.commit-hive-sync-url",
    TEXT,
    None,
    "Hive metastore that hears of partitions",
)
FORMAT_TABLE_SCAN_LIST_PARALLELISM = declare_idle(
    explain_dependency("type"), "format-table.scan.list-parallelism", INT, 64, "Threads that list a format table"
)
MATERIALIZED_TABLE_DEFINITION_QUERY = declare_idle(
    ENGINES, "materialized-table.definition-query", TEXT, None, "Query of a materialized table"
)
MATERIALIZED_TABLE_INTERVAL_FRESHNESS = declare_idle(
    ENGINES, "materialized-table.interval-freshness", TEXT, None, "How fresh a materialized table is"
)
MATERIALIZED_TABLE_INTERVAL_FRESHNESS_TIME_UNIT = declare_idle(
    ENGINES,
    "materialized-table.interval-freshness.time-unit",
    make_choice("second", "minute", "hour", "day"),
    None,
    "Unit of that",
)
MATERIALIZED_TABLE_LOGICAL_REFRESH_MODE = declare_idle(
    ENGINES,
    "materialized-table.logical-refresh-mode",
    make_choice("continuous", "full", "automatic"),
    None,
    "How a materialized table should be refreshed",
)
MATERIALIZED_TABLE_REFRESH_MODE = declare_idle(
    ENGINES,
    "materialized-table.refresh-mode",
    make_choice("continuous", "full", "automatic"),
    None,
    "How a materialized table is refreshed",
)
MATERIALIZED_TABLE_REFRESH_STATUS = declare_idle(
    ENGINES,
    "materialized-table.refresh-status",
    make_choice("initializing", "activated", "suspended"),
    None,
    "State of that refresh",
)
MATERIALIZED_TABLE_REFRESH_HANDLER_DESCRIPTION = declare_idle(
    ENGINES, "materialized-table.refresh-handler-description", TEXT, None, "Says who refreshes a materialized table"
)
MATERIALIZED_TABLE_REFRESH_HANDLER_BYTES = declare_idle(
    ENGINES, "materialized-table.refresh-handler-bytes", TEXT, None, "Serialised form of who does"
)
METASTORE_PARTITIONED_TABLE = declare_honoured(
    "metastore.partitioned-table", BOOL, False, "Registers partitions in Hive's metastore, where that is the catalog"
)
METASTORE_TAG_TO_PARTITION = declare_idle(
    METASTORE, "metastore.tag-to-partition", TEXT, None, "Shows tags as partitions in the metastore"
)
METASTORE_TAG_TO_PARTITION_PREVIEW = declare_idle(
    METASTORE,
    "metastore.tag-to-partition.preview",
    make_choice("none", "process-time", "watermark", "batch"),
    "none",
    "Shows a tag that is yet to be made",
)
PARTITION_END_INPUT_TO_DONE = declare_honoured(
    "partition.end-input-to-done", BOOL, False, "Marks the partitions that a batch has written as done"
)
MARK_DONE_ACTIONS = ("success-file", "done-partition", "mark-event", "http-report", "custom")
PARTITION_MARK_DONE_ACTION = declare_honoured(
    "partition.mark-done-action",
    make_choices(*MARK_DONE_ACTIONS),
    "success-file",
    "What marks a partition as done; classes of Java are refused",
)
PARTITION_MARK_DONE_ACTION_CUSTOM_CLASS = declare_idle(
    FLINK, "partition.mark-done-action.custom.class", TEXT, None, "Java class that marks a partition as done"
)
PARTITION_MARK_DONE_ACTION_HTTP_URL = declare_honoured(
    "partition.mark-done-action.http.url", TEXT, None, "Address that hears of partitions that are done"
)
PARTITION_MARK_DONE_ACTION_HTTP_PARAMS = declare_honoured(
    "partition.mark-done-action.http.params", TEXT, None, "Text that the report contains"
)
PARTITION_IDLE_TIME_TO_REPORT_STATISTIC = declare_idle(
    FLINK,
    "partition.idle-time-to-report-statistic",
    DURATION,
    timedelta(),
    "How long a partition rests before its statistics are reported",
)
PARTITION_SINK_STRATEGY = declare_idle(
    FLINK,
    "partition.sink-strategy",
    make_choice("none", "hash"),
    "none",
    "How rows are shuffled before they are written",
)

SINK_PARALLELISM = declare_honoured("sink.parallelism", INT, None, "Tasks that write, those of Spark too")
SCAN_PARALLELISM = declare_idle(FLINK, "scan.parallelism", INT, None, "Tasks that read")
UNAWARE_BUCKET_COMPACTION_PARALLELISM = declare_idle(
    FLINK, "unaware-bucket.compaction.parallelism", INT, None, "Tasks that compact a table without buckets"
)
UNAWARE_BUCKET_NO_SHUFFLE = declare_idle(
    FLINK, "unaware-bucket.no-shuffle", BOOL, False, "Writes tables without buckets without a shuffle"
)
COMPACTION_BUCKET_DISTRIBUTION_STRATEGY = declare_idle(
    FLINK, "compaction.bucket-distribution-strategy", TEXT, None, "How buckets are spread over compaction tasks"
)
SCAN_INFER_PARALLELISM = declare_idle(
    FLINK, "scan.infer-parallelism", BOOL, True, "Reads with as many tasks as there are splits or buckets"
)
SCAN_INFER_PARALLELISM_MAX = declare_idle(FLINK, "scan.infer-parallelism.max", INT, 1024, "Most tasks of those")
CHANGELOG_PRODUCER_COMPACTION_INTERVAL = declare_idle(
    FLINK,
    "changelog-producer.compaction-interval",
    DURATION,
    timedelta(),
    "How often a full compaction makes a changelog",
)
SCAN_WATERMARK_EMIT_STRATEGY = declare_idle(
    FLINK, "scan.watermark.emit.strategy", TEXT, None, "When watermarks are made"
)
SCAN_WATERMARK_ALIGNMENT_GROUP = declare_idle(
    FLINK, "scan.watermark.alignment.group", TEXT, None, "Group of sources whose watermarks are aligned"
)
SCAN_WATERMARK_IDLE_TIMEOUT = declare_idle(
    FLINK, "scan.watermark.idle-timeout", DURATION, None, "How long a split rests before it is idle"
)
SCAN_WATERMARK_ALIGNMENT_MAX_DRIFT = declare_idle(
    FLINK, "scan.watermark.alignment.max-drift", DURATION, None, "How far watermarks may drift apart"
)
SCAN_WATERMARK_ALIGNMENT_UPDATE_INTERVAL = declare_idle(
    FLINK,
    "scan.watermark.alignment.update-interval",
    DURATION,
    timedelta(seconds=1),
    "How often watermarks are aligned",
)
SCAN_SPLIT_ENUMERATOR_BATCH_SIZE = declare_idle(
    FLINK, "scan.split-enumerator.batch-size", INT, 10, "Splits that are handed out at a time"
)
SCAN_MAX_SNAPSHOT_COUNT = declare_idle(
    FLINK, "scan.max-snapshot.count", INT, -1, "Snapshots that wait to be read at most"
)
SCAN_SPLIT_ENUMERATOR_MODE = declare_idle(FLINK, "scan.split-enumerator.mode", TEXT, None, "How splits are handed out")
SINK_USE_MANAGED_MEMORY_ALLOCATOR = declare_idle(
    FLINK, "sink.use-managed-memory-allocator", BOOL, False, "Takes write buffers from managed memory"
)
SCAN_REMOVE_NORMALIZE = declare_idle(
    FLINK,
    "scan.remove-normalize",
    BOOL,
    False,
    "Leaves the normalisation of changelogs out of plans",
    former=("log.scan.remove-normalize",),
)
READ_SHUFFLE_BUCKET_WITH_PARTITION = declare_idle(
    FLINK,
    "read.shuffle-bucket-with-partition",
    BOOL,
    True,
    "Shuffles splits by partition and bucket",
    former=("streaming-read.shuffle-bucket-with-partition",),
)
SINK_MANAGED_WRITER_BUFFER_MEMORY = declare_idle(
    FLINK, "sink.managed.writer-buffer-memory", MEMORY, 256 << 20, "Weight of write buffers in managed memory"
)
SINK_CROSS_PARTITION_MANAGED_MEMORY = declare_idle(
    FLINK, "sink.cross-partition.managed-memory", MEMORY, 256 << 20, "Weight of the index of keys in managed memory"
)
SOURCE_CHECKPOINT_ALIGN_ENABLED = declare_idle(
    FLINK, "source.checkpoint-align.enabled", BOOL, False, "Aligns checkpoints with snapshots"
)
SOURCE_CHECKPOINT_ALIGN_TIMEOUT = declare_idle(
    FLINK,
    "source.checkpoint-align.timeout",
    DURATION,
    timedelta(seconds=30),
    "How long a checkpoint waits for a snapshot",
)
LOOKUP_ASYNC = declare_idle(FLINK, "lookup.async", BOOL, False, "Looks up asynchronously")
LOOKUP_BOOTSTRAP_PARALLELISM = declare_idle(
    FLINK, "lookup.bootstrap-parallelism", INT, 4, "Tasks that load the cache of a lookup join"
)
LOOKUP_ASYNC_THREAD_NUMBER = declare_idle(FLINK, "lookup.async-thread-number", INT, 16, "Threads that look up")
LOOKUP_CACHE = declare_idle(FLINK, "lookup.cache", TEXT, None, "What a lookup join caches")
SCAN_PARTITIONS = declare_idle(
    FLINK, "scan.partitions", TEXT, None, "Partitions that a lookup join reads", former=("lookup.dynamic-partition",)
)
LOOKUP_DYNAMIC_PARTITION_REFRESH_INTERVAL = declare_idle(
    FLINK, "lookup.dynamic-partition.refresh-interval", DURATION, timedelta(hours=1), "How often those are found anew"
)
LOOKUP_REFRESH_ASYNC = declare_idle(
    FLINK, "lookup.refresh.async", BOOL, False, "Refreshes the cache of a lookup join in the background"
)
LOOKUP_DYNAMIC_PARTITION_REFRESH_ASYNC = declare_idle(
    FLINK,
    "lookup.dynamic-partition.refresh.async",
    BOOL,
    False,
    "Refreshes the partitions of a lookup join in the background",
)
LOOKUP_REFRESH_ASYNC_PENDING_SNAPSHOT_COUNT = declare_idle(
    FLINK,
    "lookup.refresh.async.pending-snapshot-count",
    INT,
    5,
    "Snapshots above which a lookup join waits for the refresh",
)
LOOKUP_REFRESH_TIME_PERIODS_BLACKLIST = declare_idle(
    FLINK, "lookup.refresh.time-periods-blacklist", TEXT, None, "Times without a refresh"
)
LOOKUP_REFRESH_FULL_LOAD_THRESHOLD = declare_idle(
    FLINK, "lookup.refresh.full-load-threshold", INT, None, "Snapshots above which a lookup join loads everything anew"
)
SINK_SAVEPOINT_AUTO_TAG = declare_idle(FLINK, "sink.savepoint.auto-tag", BOOL, False, "Makes a tag for each savepoint")
SINK_WRITER_CPU = declare_idle(FLINK, "sink.writer-cpu", REAL, 1.0, "Processors of a writing task")
SINK_WRITER_MEMORY = declare_idle(FLINK, "sink.writer-memory", MEMORY, None, "Memory of a writing task")
SINK_COMMITTER_CPU = declare_idle(FLINK, "sink.committer-cpu", REAL, 1.0, "Processors of the committing task")
SINK_COMMITTER_MEMORY = declare_idle(FLINK, "sink.committer-memory", MEMORY, None, "Memory of the committing task")
SINK_COMMITTER_OPERATOR_CHAINING = declare_idle(
    FLINK, "sink.committer-operator-chaining", BOOL, True, "Chains the committing task to others"
)
PARTITION_MARK_DONE_ACTION_MODE = declare_idle(
    FLINK, "partition.mark-done-action.mode", TEXT, None, "By which clock partitions are done"
)
PARTITION_IDLE_TIME_TO_DONE = declare_idle(
    FLINK, "partition.idle-time-to-done", DURATION, None, "How long a partition rests before it is done"
)
PARTITION_TIME_INTERVAL = declare_idle(
    FLINK, "partition.time-interval", DURATION, None, "Length of the time of a partition"
)
PARTITION_MARK_DONE_RECOVER_FROM_STATE = declare_idle(
    FLINK, "partition.mark-done.recover-from-state", BOOL, True, "Marks partitions of a recovered job"
)
SINK_CLUSTERING_SORT_IN_CLUSTER = declare_idle(
    FLINK, "sink.clustering.sort-in-cluster", BOOL, True, "Sorts rows within their range"
)
SINK_CLUSTERING_SAMPLE_FACTOR = declare_idle(FLINK, "sink.clustering.sample-factor", INT, 100, "Samples of a sort")
END_INPUT_WATERMARK = declare_idle(FLINK, "end-input.watermark", LONG, None, "Watermark at the end of input")
PRECOMMIT_COMPACT = declare_idle(
    FLINK,
    "precommit-compact",
    BOOL,
    False,
    "Compacts small changelog files before a commit",
    former=("changelog.precommit-compact",),
)
CHANGELOG_PRECOMMIT_COMPACT_THREAD_NUM = declare_idle(
    FLINK, "changelog.precommit-compact.thread-num", INT, None, "Threads that do that"
)
CHANGELOG_PRECOMMIT_COMPACT_BUFFER_SIZE = declare_idle(
    FLINK, "changelog.precommit-compact.buffer-size", MEMORY, 128 << 20, "Memory for that"
)
SOURCE_OPERATOR_UID_SUFFIX = declare_idle(
    FLINK, "source.operator-uid.suffix", TEXT, None, "Ends the name of the reading operator"
)
SINK_OPERATOR_UID_SUFFIX = declare_idle(
    FLINK, "sink.operator-uid.suffix", TEXT, None, "Ends the name of the writing operator"
)
SCAN_BOUNDED = declare_idle(FLINK, "scan.bounded", BOOL, None, "Reads a stream as a batch")
SCAN_DEDICATED_SPLIT_GENERATION = declare_idle(
    FLINK, "scan.dedicated-split-generation", BOOL, False, "Plans splits in a task of its own"
)
COMMIT_CUSTOM_LISTENERS = declare_idle(
    FLINK, "commit.custom-listeners", TEXT, None, "Listeners that are called at commits"
)
SINK_COORDINATOR_COMMIT_ENABLED = declare_idle(
    FLINK, "sink.coordinator-commit.enabled", BOOL, False, "Commits in the coordinator of the job"
)
SINK_WRITER_COORDINATOR_ENABLED = declare_idle(
    FLINK, "sink.writer-coordinator.enabled", BOOL, False, "Reads manifests in a coordinator of writers"
)
SINK_KEY_ONLY_DELETES_ENABLED = declare_idle(
    FLINK, "sink.key-only-deletes.enabled", BOOL, False, "Takes deletions that have their key only"
)
SINK_WRITER_COORDINATOR_CACHE_MEMORY = declare_idle(
    FLINK, "sink.writer-coordinator.cache-memory", MEMORY, 2048 << 20, "Memory of that coordinator"
)
SINK_WRITER_COORDINATOR_CACHE_EXPIRE_AFTER_ACCESS = declare_idle(
    FLINK, "sink.writer-coordinator.cache-expire-after-access", DURATION, None, "How long that memory holds manifests"
)
SINK_WRITER_COORDINATOR_CACHE_SOFT_VALUES = declare_idle(
    FLINK, "sink.writer-coordinator.cache-soft-values", BOOL, True, "Lets manifests go when memory is short"
)
SINK_WRITER_COORDINATOR_PAGE_SIZE = declare_idle(
    FLINK, "sink.writer-coordinator.page-size", MEMORY, 32 << 10, "Size of an answer of that coordinator"
)
SINK_WRITER_COORDINATOR_PREFETCH_MANIFESTS = declare_idle(
    FLINK, "sink.writer-coordinator.prefetch-manifests", BOOL, False, "Reads manifests ahead"
)
FILESYSTEM_JOB_LEVEL_SETTINGS_ENABLED = declare_idle(
    FLINK, "filesystem.job-level-settings.enabled", BOOL, True, "Takes settings of file systems from the job"
)
SINK_WRITER_REFRESH_DETECTORS = declare_idle(
    FLINK, "sink.writer-refresh-detectors", TEXT, None, "What makes writers look at options anew"
)

REQUIRED_SPARK_CONFS_CHECK_ENABLED = declare_idle(
    SPARK, "requiredSparkConfsCheck.enabled", BOOL, True, "Checks the settings of the session"
)
LEGACY_TIMESTAMP_MAPPING_ENABLED = declare_idle(
    SPARK, "legacy-timestamp-mapping.enabled", BOOL, False, "Takes TIMESTAMP for Spark's TIMESTAMP"
)
VECTOR_SEARCH_LATERAL_JOIN_PARALLELISM = declare_idle(
    SPARK, "vector-search.lateral-join.parallelism", INT, 16, "Tasks of a join that searches vectors"
)
WRITE_MERGE_SCHEMA = declare_idle(
    SPARK, "write.merge-schema", BOOL, False, "Adds the columns of written rows to the table"
)
WRITE_MERGE_SCHEMA_TYPE_WIDENING = declare_idle(
    SPARK, "write.merge-schema.type-widening", BOOL, False, "Widens the types of columns for written rows"
)
WRITE_MERGE_SCHEMA_EXPLICIT_CAST = declare_idle(
    SPARK, "write.merge-schema.explicit-cast", BOOL, False, "Changes the types of columns for written rows"
)
WRITE_USE_V2_WRITE = declare_idle(SPARK, "write.use-v2-write", BOOL, False, "Writes by Spark's second interface")
WRITE_HIVE_STYLE_DYNAMIC_PARTITION_ENABLED = declare_idle(
    SPARK, "write.hive-style-dynamic-partition.enabled", BOOL, False, "Expects partition columns last"
)
WRITE_DATA_EVOLUTION_UPDATE_CONFLICT_RETRY_MAX_ATTEMPTS = declare_idle(
    SPARK, "write.data-evolution.update-conflict-retry.max-attempts", INT, 20, "How often an update is tried"
)
WRITE_DATA_EVOLUTION_UPDATE_CONFLICT_RETRY_WAIT_MS = declare_idle(
    SPARK, "write.data-evolution.update-conflict-retry.wait-ms", LONG, 10, "Wait before an update is tried again"
)
READ_STREAM_MAX_FILES_PER_TRIGGER = declare_idle(
    SPARK, "read.stream.maxFilesPerTrigger", INT, None, "Most files of a batch of a stream"
)
READ_STREAM_MAX_BYTES_PER_TRIGGER = declare_idle(
    SPARK, "read.stream.maxBytesPerTrigger", LONG, None, "Most bytes of a batch of a stream"
)
READ_STREAM_MAX_ROWS_PER_TRIGGER = declare_idle(
    SPARK, "read.stream.maxRowsPerTrigger", LONG, None, "Most rows of a batch of a stream"
)
READ_STREAM_MIN_ROWS_PER_TRIGGER = declare_idle(
    SPARK, "read.stream.minRowsPerTrigger", LONG, None, "Fewest rows of a batch of a stream"
)
READ_STREAM_MAX_TRIGGER_DELAY_MS = declare_idle(
    SPARK, "read.stream.maxTriggerDelayMs", LONG, None, "How long a batch of a stream waits for those"
)
READ_CHANGELOG = declare_idle(SPARK, "read.changelog", BOOL, False, "Shows the kinds of rows")
READ_ALLOW_FULL_SCAN = declare_idle(
    SPARK, "read.allow.fullScan", BOOL, True, "Allows reads without a filter on partitions"
)
FORMAT_TABLE_REPAIR_COLLECT_STATISTICS = declare_idle(
    SPARK, "format-table.repair.collect-statistics", BOOL, False, "Measures the partitions of a format table"
)
FORMAT_TABLE_STATISTICS_PARALLELISM = declare_idle(
    SPARK, "format-table.statistics.parallelism", INT, 8, "Requests that measure a format table"
)
SOURCE_SPLIT_TARGET_SIZE_WITH_COLUMN_PRUNING = declare_idle(
    SPARK,
    "source.split.target-size-with-column-pruning",
    BOOL,
    False,
    "Counts the columns that are read in the sizes of splits",
)
READ_PARALLELISM = declare_idle(PYPAIMON, "read.parallelism", INT, None, "Threads that read splits")
SCAN_NATIVE_PLAN_ENABLED = declare_idle(PYPAIMON, "scan.native-plan.enabled", BOOL, False, "Plans reads in Rust")
READ_NATIVE_ENABLED = declare_idle(PYPAIMON, "read.native.enabled", BOOL, False, "Reads files in Rust")
WRITE_NATIVE_ENABLED = declare_idle(PYPAIMON, "write.native.enabled", BOOL, False, "Writes files in Rust")
COMMIT_NATIVE_ENABLED = declare_idle(PYPAIMON, "commit.native.enabled", BOOL, False, "Commits in Rust")
MANIFEST_SIDECAR_ENABLED = declare_idle(
    PYPAIMON, "manifest.sidecar.enabled", BOOL, None, "Prunes manifests by files beside them"
)
PARQUET_FILTER_COLUMNINDEX_ENABLED = declare_idle(
    PYPAIMON, "parquet.filter.columnindex.enabled", BOOL, True, "Skips pages of Parquet files by their indexes"
)
LOCAL_CACHE_ENABLED = declare_idle(PYPAIMON, "local-cache.enabled", BOOL, False, "Keeps blocks of files that were read")
LOCAL_CACHE_DIR = declare_idle(PYPAIMON, "local-cache.dir", TEXT, None, "Folder of those blocks; memory if not set")
LOCAL_CACHE_MAX_SIZE = declare_idle(PYPAIMON, "local-cache.max-size", MEMORY, None, "Size of those blocks at most")
LOCAL_CACHE_BLOCK_SIZE = declare_idle(PYPAIMON, "local-cache.block-size", MEMORY, 1 << 20, "Size of such a block")
LOCAL_CACHE_WHITELIST = declare_idle(
    PYPAIMON, "local-cache.whitelist", TEXT, "meta,global-index", "Kinds of files whose blocks are kept"
)
