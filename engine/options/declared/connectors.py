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
    declare_all_idle,
    declare_honoured,
    declare_idle,
    explain_dependency,
    make_choice,
    make_choices,
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
METASTORE_PARTITIONED_TABLE = declare_honoured(
    "metastore.partitioned-table", BOOL, False, "Registers partitions in Hive's metastore, where that is the catalog"
)
METASTORE_TAG_TO_PARTITION = declare_idle(
    METASTORE, "metastore.tag-to-partition", TEXT, None, "Shows tags as partitions in the metastore"
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
PARTITION_MARK_DONE_ACTION_HTTP_URL = declare_honoured(
    "partition.mark-done-action.http.url", TEXT, None, "Address that hears of partitions that are done"
)
PARTITION_MARK_DONE_ACTION_HTTP_PARAMS = declare_honoured(
    "partition.mark-done-action.http.params", TEXT, None, "Text that the report contains"
)

SINK_PARALLELISM = declare_honoured("sink.parallelism", INT, None, "Tasks that write, those of Spark too")
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
SCAN_PARTITIONS = declare_idle(
    FLINK, "scan.partitions", TEXT, None, "Partitions that a lookup join reads", former=("lookup.dynamic-partition",)
)
PRECOMMIT_COMPACT = declare_idle(
    FLINK,
    "precommit-compact",
    BOOL,
    False,
    "Compacts small changelog files before a commit",
    former=("changelog.precommit-compact",),
)

REQUIRED_SPARK_CONFS_CHECK_ENABLED = declare_idle(
    SPARK, "requiredSparkConfsCheck.enabled", BOOL, True, "Checks the settings of the session"
)
LEGACY_TIMESTAMP_MAPPING_ENABLED = declare_idle(
    SPARK, "legacy-timestamp-mapping.enabled", BOOL, False, "Takes TIMESTAMP for Spark's TIMESTAMP"
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
READ_CHANGELOG = declare_idle(SPARK, "read.changelog", BOOL, False, "Shows the kinds of rows")
READ_ALLOW_FULL_SCAN = declare_idle(
    SPARK, "read.allow.fullScan", BOOL, True, "Allows reads without a filter on partitions"
)
SOURCE_SPLIT_TARGET_SIZE_WITH_COLUMN_PRUNING = declare_idle(
    SPARK,
    "source.split.target-size-with-column-pruning",
    BOOL,
    False,
    "Counts the columns that are read in the sizes of splits",
)

REFRESH = make_choice("continuous", "full", "automatic")
IDLE = declare_all_idle(
    {
        explain_dependency("type"): [
            ("format-table.implementation", make_choice("paimon", "engine"), "paimon", "Who reads a format table"),
            ("format-table.commit-hive-sync-url", TEXT, None, "Hive metastore that hears of partitions"),
            ("format-table.scan.list-parallelism", INT, 64, "Threads that list a format table"),
        ],
        ENGINES: [
            ("materialized-table.definition-query", TEXT, None, "Query of a materialized table"),
            ("materialized-table.interval-freshness", TEXT, None, "How fresh a materialized table is"),
            (
                "materialized-table.interval-freshness.time-unit",
                make_choice("second", "minute", "hour", "day"),
                None,
                "Unit of that interval",
            ),
            ("materialized-table.logical-refresh-mode", REFRESH, None, "How a materialized table should be refreshed"),
            ("materialized-table.refresh-mode", REFRESH, None, "How a materialized table is refreshed"),
            (
                "materialized-table.refresh-status",
                make_choice("initializing", "activated", "suspended"),
                None,
                "State of the refresh of a materialized table",
            ),
            ("materialized-table.refresh-handler-description", TEXT, None, "Says who refreshes a materialized table"),
            ("materialized-table.refresh-handler-bytes", TEXT, None, "Serialised form of who does"),
        ],
        METASTORE: [
            (
                "metastore.tag-to-partition.preview",
                make_choice("none", "process-time", "watermark", "batch"),
                "none",
                "Shows a tag that is yet to be made",
            )
        ],
        FLINK: [
            ("partition.mark-done-action.custom.class", TEXT, None, "Java class that marks a partition as done"),
            ("partition.idle-time-to-report-statistic", DURATION, timedelta(), "Rest of a partition before a report"),
            (
                "partition.sink-strategy",
                make_choice("none", "hash"),
                "none",
                "How rows are shuffled before they are written",
            ),
            ("scan.parallelism", INT, None, "Tasks that read"),
            ("unaware-bucket.compaction.parallelism", INT, None, "Tasks that compact a table without buckets"),
            ("unaware-bucket.no-shuffle", BOOL, False, "Writes tables without buckets without a shuffle"),
            ("compaction.bucket-distribution-strategy", TEXT, None, "How buckets are spread over compaction tasks"),
            ("scan.infer-parallelism", BOOL, True, "Reads with as many tasks as there are splits or buckets"),
            ("scan.infer-parallelism.max", INT, 1024, "Most tasks of a scan without that parallelism"),
            (
                "changelog-producer.compaction-interval",
                DURATION,
                timedelta(),
                "How often a full compaction makes a changelog",
            ),
            ("scan.watermark.emit.strategy", TEXT, None, "When watermarks are made"),
            ("scan.watermark.alignment.group", TEXT, None, "Group of sources whose watermarks are aligned"),
            ("scan.watermark.idle-timeout", DURATION, None, "How long a split rests before it is idle"),
            ("scan.watermark.alignment.max-drift", DURATION, None, "How far watermarks may drift apart"),
            (
                "scan.watermark.alignment.update-interval",
                DURATION,
                timedelta(seconds=1),
                "How often watermarks are aligned",
            ),
            ("scan.split-enumerator.batch-size", INT, 10, "Splits that are handed out at a time"),
            ("scan.max-snapshot.count", INT, -1, "Snapshots that wait to be read at most"),
            ("scan.split-enumerator.mode", TEXT, None, "How splits are handed out"),
            ("sink.use-managed-memory-allocator", BOOL, False, "Takes write buffers from managed memory"),
            ("sink.managed.writer-buffer-memory", MEMORY, 256 << 20, "Weight of write buffers in managed memory"),
            ("sink.cross-partition.managed-memory", MEMORY, 256 << 20, "Weight of the index of keys in managed memory"),
            ("source.checkpoint-align.enabled", BOOL, False, "Aligns checkpoints with snapshots"),
            (
                "source.checkpoint-align.timeout",
                DURATION,
                timedelta(seconds=30),
                "How long a checkpoint waits for a snapshot",
            ),
            ("lookup.async", BOOL, False, "Looks up asynchronously"),
            ("lookup.bootstrap-parallelism", INT, 4, "Tasks that load the cache of a lookup join"),
            ("lookup.async-thread-number", INT, 16, "Threads that look up"),
            ("lookup.cache", TEXT, None, "What a lookup join caches"),
            (
                "lookup.dynamic-partition.refresh-interval",
                DURATION,
                timedelta(hours=1),
                "How often a lookup join finds its partitions anew",
            ),
            ("lookup.refresh.async", BOOL, False, "Refreshes the cache of a lookup join in the background"),
            ("lookup.dynamic-partition.refresh.async", BOOL, False, "Refreshes those partitions in the background"),
            ("lookup.refresh.async.pending-snapshot-count", INT, 5, "Snapshots above which a lookup join waits"),
            ("lookup.refresh.time-periods-blacklist", TEXT, None, "Times without a refresh"),
            ("lookup.refresh.full-load-threshold", INT, None, "Snapshots above which a lookup join loads all rows"),
            ("sink.savepoint.auto-tag", BOOL, False, "Makes a tag for each savepoint"),
            ("sink.writer-cpu", REAL, 1.0, "Processors of a writing task"),
            ("sink.writer-memory", MEMORY, None, "Memory of a writing task"),
            ("sink.committer-cpu", REAL, 1.0, "Processors of the committing task"),
            ("sink.committer-memory", MEMORY, None, "Memory of the committing task"),
            ("sink.committer-operator-chaining", BOOL, True, "Chains the committing task to others"),
            ("partition.mark-done-action.mode", TEXT, None, "By which clock partitions are done"),
            ("partition.idle-time-to-done", DURATION, None, "How long a partition rests before it is done"),
            ("partition.time-interval", DURATION, None, "Length of the time of a partition"),
            ("partition.mark-done.recover-from-state", BOOL, True, "Marks partitions of a recovered job"),
            ("sink.clustering.sort-in-cluster", BOOL, True, "Sorts rows within their range"),
            ("sink.clustering.sample-factor", INT, 100, "Samples of a sort"),
            ("end-input.watermark", LONG, None, "Watermark at the end of input"),
            ("changelog.precommit-compact.thread-num", INT, None, "Threads that compact changelogs before a commit"),
            ("changelog.precommit-compact.buffer-size", MEMORY, 128 << 20, "Memory of those threads"),
            ("source.operator-uid.suffix", TEXT, None, "Ends the name of the reading operator"),
            ("sink.operator-uid.suffix", TEXT, None, "Ends the name of the writing operator"),
            ("scan.bounded", BOOL, None, "Reads a stream as a batch"),
            ("scan.dedicated-split-generation", BOOL, False, "Plans splits in a task of its own"),
            ("commit.custom-listeners", TEXT, None, "Listeners that are called at commits"),
            ("sink.coordinator-commit.enabled", BOOL, False, "Commits in the coordinator of the job"),
            ("sink.writer-coordinator.enabled", BOOL, False, "Reads manifests in a coordinator of writers"),
            ("sink.key-only-deletes.enabled", BOOL, False, "Takes deletions that have their key only"),
            ("sink.writer-coordinator.cache-memory", MEMORY, 2048 << 20, "Memory of the coordinator of writers"),
            ("sink.writer-coordinator.cache-expire-after-access", DURATION, None, "How long manifests stay there"),
            ("sink.writer-coordinator.cache-soft-values", BOOL, True, "Lets manifests go when memory is short"),
            ("sink.writer-coordinator.page-size", MEMORY, 32 << 10, "Size of an answer of that coordinator"),
            ("sink.writer-coordinator.prefetch-manifests", BOOL, False, "Reads manifests ahead"),
            ("filesystem.job-level-settings.enabled", BOOL, True, "Takes settings of file systems from the job"),
            ("sink.writer-refresh-detectors", TEXT, None, "What makes writers look at options anew"),
        ],
        SPARK: [
            ("vector-search.lateral-join.parallelism", INT, 16, "Tasks of a join that searches vectors"),
            ("read.stream.maxFilesPerTrigger", INT, None, "Most files of a batch of a stream"),
            ("read.stream.maxBytesPerTrigger", LONG, None, "Most bytes of a batch of a stream"),
            ("read.stream.maxRowsPerTrigger", LONG, None, "Most rows of a batch of a stream"),
            ("read.stream.minRowsPerTrigger", LONG, None, "Fewest rows of a batch of a stream"),
            ("read.stream.maxTriggerDelayMs", LONG, None, "How long a batch of a stream waits for those"),
            ("format-table.repair.collect-statistics", BOOL, False, "Measures the partitions of a format table"),
            ("format-table.statistics.parallelism", INT, 8, "Requests that measure a format table"),
        ],
        PYPAIMON: [
            ("read.parallelism", INT, None, "Threads that read splits"),
            ("scan.native-plan.enabled", BOOL, False, "Plans reads in Rust"),
            ("read.native.enabled", BOOL, False, "Reads files in Rust"),
            ("write.native.enabled", BOOL, False, "Writes files in Rust"),
            ("commit.native.enabled", BOOL, False, "Commits in Rust"),
            ("manifest.sidecar.enabled", BOOL, None, "Prunes manifests by files beside them"),
            ("parquet.filter.columnindex.enabled", BOOL, True, "Skips pages of Parquet files by their indexes"),
            ("local-cache.enabled", BOOL, False, "Keeps blocks of files that were read"),
            ("local-cache.dir", TEXT, None, "Folder of those blocks; memory if not set"),
            ("local-cache.max-size", MEMORY, None, "Size of those blocks at most"),
            ("local-cache.block-size", MEMORY, 1 << 20, "Size of such a block"),
            ("local-cache.whitelist", TEXT, "meta,global-index", "Kinds of files whose blocks are kept"),
        ],
    }
)
