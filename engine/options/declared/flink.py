"""Options of Paimon's connector for Flink: known, and without effect here where they do not say more."""

from __future__ import annotations

from datetime import timedelta

from morrow.engine.options.declaring import FLINK, honoured, idle
from morrow.engine.options.kinds import BOOL, DURATION, INT, LONG, MEMORY, REAL, TEXT

SINK_PARALLELISM = honoured("sink.parallelism", INT, None, "Tasks that write, those of Spark too")
SCAN_PARALLELISM = idle(FLINK, "scan.parallelism", INT, None, "Tasks that read")
UNAWARE_BUCKET_COMPACTION_PARALLELISM = idle(
    FLINK, "unaware-bucket.compaction.parallelism", INT, None, "Tasks that compact a table without buckets"
)
UNAWARE_BUCKET_NO_SHUFFLE = idle(
    FLINK, "unaware-bucket.no-shuffle", BOOL, False, "Writes tables without buckets without a shuffle"
)
COMPACTION_BUCKET_DISTRIBUTION_STRATEGY = idle(
    FLINK, "compaction.bucket-distribution-strategy", TEXT, None, "How buckets are spread over compaction tasks"
)
SCAN_INFER_PARALLELISM = idle(
    FLINK, "scan.infer-parallelism", BOOL, True, "Reads with as many tasks as there are splits or buckets"
)
SCAN_INFER_PARALLELISM_MAX = idle(FLINK, "scan.infer-parallelism.max", INT, 1024, "Most tasks of those")
CHANGELOG_PRODUCER_COMPACTION_INTERVAL = idle(
    FLINK,
    "changelog-producer.compaction-interval",
    DURATION,
    timedelta(),
    "How often a full compaction makes a changelog",
)
SCAN_WATERMARK_EMIT_STRATEGY = idle(FLINK, "scan.watermark.emit.strategy", TEXT, None, "When watermarks are made")
SCAN_WATERMARK_ALIGNMENT_GROUP = idle(
    FLINK, "scan.watermark.alignment.group", TEXT, None, "Group of sources whose watermarks are aligned"
)
SCAN_WATERMARK_IDLE_TIMEOUT = idle(
    FLINK, "scan.watermark.idle-timeout", DURATION, None, "How long a split rests before it is idle"
)
SCAN_WATERMARK_ALIGNMENT_MAX_DRIFT = idle(
    FLINK, "scan.watermark.alignment.max-drift", DURATION, None, "How far watermarks may drift apart"
)
SCAN_WATERMARK_ALIGNMENT_UPDATE_INTERVAL = idle(
    FLINK,
    "scan.watermark.alignment.update-interval",
    DURATION,
    timedelta(seconds=1),
    "How often watermarks are aligned",
)
SCAN_SPLIT_ENUMERATOR_BATCH_SIZE = idle(
    FLINK, "scan.split-enumerator.batch-size", INT, 10, "Splits that are handed out at a time"
)
SCAN_MAX_SNAPSHOT_COUNT = idle(FLINK, "scan.max-snapshot.count", INT, -1, "Snapshots that wait to be read at most")
SCAN_SPLIT_ENUMERATOR_MODE = idle(FLINK, "scan.split-enumerator.mode", TEXT, None, "How splits are handed out")
SINK_USE_MANAGED_MEMORY_ALLOCATOR = idle(
    FLINK, "sink.use-managed-memory-allocator", BOOL, False, "Takes write buffers from managed memory"
)
SCAN_REMOVE_NORMALIZE = idle(
    FLINK,
    "scan.remove-normalize",
    BOOL,
    False,
    "Leaves the normalisation of changelogs out of plans",
    former=("log.scan.remove-normalize",),
)
READ_SHUFFLE_BUCKET_WITH_PARTITION = idle(
    FLINK,
    "read.shuffle-bucket-with-partition",
    BOOL,
    True,
    "Shuffles splits by partition and bucket",
    former=("streaming-read.shuffle-bucket-with-partition",),
)
SINK_MANAGED_WRITER_BUFFER_MEMORY = idle(
    FLINK, "sink.managed.writer-buffer-memory", MEMORY, 256 << 20, "Weight of write buffers in managed memory"
)
SINK_CROSS_PARTITION_MANAGED_MEMORY = idle(
    FLINK, "sink.cross-partition.managed-memory", MEMORY, 256 << 20, "Weight of the index of keys in managed memory"
)
SOURCE_CHECKPOINT_ALIGN_ENABLED = idle(
    FLINK, "source.checkpoint-align.enabled", BOOL, False, "Aligns checkpoints with snapshots"
)
SOURCE_CHECKPOINT_ALIGN_TIMEOUT = idle(
    FLINK,
    "source.checkpoint-align.timeout",
    DURATION,
    timedelta(seconds=30),
    "How long a checkpoint waits for a snapshot",
)
LOOKUP_ASYNC = idle(FLINK, "lookup.async", BOOL, False, "Looks up asynchronously")
LOOKUP_BOOTSTRAP_PARALLELISM = idle(
    FLINK, "lookup.bootstrap-parallelism", INT, 4, "Tasks that load the cache of a lookup join"
)
LOOKUP_ASYNC_THREAD_NUMBER = idle(FLINK, "lookup.async-thread-number", INT, 16, "Threads that look up")
LOOKUP_CACHE = idle(FLINK, "lookup.cache", TEXT, None, "What a lookup join caches")
SCAN_PARTITIONS = idle(
    FLINK, "scan.partitions", TEXT, None, "Partitions that a lookup join reads", former=("lookup.dynamic-partition",)
)
LOOKUP_DYNAMIC_PARTITION_REFRESH_INTERVAL = idle(
    FLINK, "lookup.dynamic-partition.refresh-interval", DURATION, timedelta(hours=1), "How often those are found anew"
)
LOOKUP_REFRESH_ASYNC = idle(
    FLINK, "lookup.refresh.async", BOOL, False, "Refreshes the cache of a lookup join in the background"
)
LOOKUP_DYNAMIC_PARTITION_REFRESH_ASYNC = idle(
    FLINK,
    "lookup.dynamic-partition.refresh.async",
    BOOL,
    False,
    "Refreshes the partitions of a lookup join in the background",
)
LOOKUP_REFRESH_ASYNC_PENDING_SNAPSHOT_COUNT = idle(
    FLINK,
    "lookup.refresh.async.pending-snapshot-count",
    INT,
    5,
    "Snapshots above which a lookup join waits for the refresh",
)
LOOKUP_REFRESH_TIME_PERIODS_BLACKLIST = idle(
    FLINK, "lookup.refresh.time-periods-blacklist", TEXT, None, "Times without a refresh"
)
LOOKUP_REFRESH_FULL_LOAD_THRESHOLD = idle(
    FLINK, "lookup.refresh.full-load-threshold", INT, None, "Snapshots above which a lookup join loads everything anew"
)
SINK_SAVEPOINT_AUTO_TAG = idle(FLINK, "sink.savepoint.auto-tag", BOOL, False, "Makes a tag for each savepoint")
SINK_WRITER_CPU = idle(FLINK, "sink.writer-cpu", REAL, 1.0, "Processors of a writing task")
SINK_WRITER_MEMORY = idle(FLINK, "sink.writer-memory", MEMORY, None, "Memory of a writing task")
SINK_COMMITTER_CPU = idle(FLINK, "sink.committer-cpu", REAL, 1.0, "Processors of the committing task")
SINK_COMMITTER_MEMORY = idle(FLINK, "sink.committer-memory", MEMORY, None, "Memory of the committing task")
SINK_COMMITTER_OPERATOR_CHAINING = idle(
    FLINK, "sink.committer-operator-chaining", BOOL, True, "Chains the committing task to others"
)
PARTITION_MARK_DONE_ACTION_MODE = idle(
    FLINK, "partition.mark-done-action.mode", TEXT, None, "By which clock partitions are done"
)
PARTITION_IDLE_TIME_TO_DONE = idle(
    FLINK, "partition.idle-time-to-done", DURATION, None, "How long a partition rests before it is done"
)
PARTITION_TIME_INTERVAL = idle(FLINK, "partition.time-interval", DURATION, None, "Length of the time of a partition")
PARTITION_MARK_DONE_RECOVER_FROM_STATE = idle(
    FLINK, "partition.mark-done.recover-from-state", BOOL, True, "Marks partitions of a recovered job"
)
SINK_CLUSTERING_SORT_IN_CLUSTER = idle(
    FLINK, "sink.clustering.sort-in-cluster", BOOL, True, "Sorts rows within their range"
)
SINK_CLUSTERING_SAMPLE_FACTOR = idle(FLINK, "sink.clustering.sample-factor", INT, 100, "Samples of a sort")
END_INPUT_WATERMARK = idle(FLINK, "end-input.watermark", LONG, None, "Watermark at the end of input")
PRECOMMIT_COMPACT = idle(
    FLINK,
    "precommit-compact",
    BOOL,
    False,
    "Compacts small changelog files before a commit",
    former=("changelog.precommit-compact",),
)
CHANGELOG_PRECOMMIT_COMPACT_THREAD_NUM = idle(
    FLINK, "changelog.precommit-compact.thread-num", INT, None, "Threads that do that"
)
CHANGELOG_PRECOMMIT_COMPACT_BUFFER_SIZE = idle(
    FLINK, "changelog.precommit-compact.buffer-size", MEMORY, 128 << 20, "Memory for that"
)
SOURCE_OPERATOR_UID_SUFFIX = idle(
    FLINK, "source.operator-uid.suffix", TEXT, None, "Ends the name of the reading operator"
)
SINK_OPERATOR_UID_SUFFIX = idle(FLINK, "sink.operator-uid.suffix", TEXT, None, "Ends the name of the writing operator")
SCAN_BOUNDED = idle(FLINK, "scan.bounded", BOOL, None, "Reads a stream as a batch")
SCAN_DEDICATED_SPLIT_GENERATION = idle(
    FLINK, "scan.dedicated-split-generation", BOOL, False, "Plans splits in a task of its own"
)
COMMIT_CUSTOM_LISTENERS = idle(FLINK, "commit.custom-listeners", TEXT, None, "Listeners that are called at commits")
SINK_COORDINATOR_COMMIT_ENABLED = idle(
    FLINK, "sink.coordinator-commit.enabled", BOOL, False, "Commits in the coordinator of the job"
)
SINK_WRITER_COORDINATOR_ENABLED = idle(
    FLINK, "sink.writer-coordinator.enabled", BOOL, False, "Reads manifests in a coordinator of writers"
)
SINK_KEY_ONLY_DELETES_ENABLED = idle(
    FLINK, "sink.key-only-deletes.enabled", BOOL, False, "Takes deletions that have their key only"
)
SINK_WRITER_COORDINATOR_CACHE_MEMORY = idle(
    FLINK, "sink.writer-coordinator.cache-memory", MEMORY, 2048 << 20, "Memory of that coordinator"
)
SINK_WRITER_COORDINATOR_CACHE_EXPIRE_AFTER_ACCESS = idle(
    FLINK, "sink.writer-coordinator.cache-expire-after-access", DURATION, None, "How long that memory holds manifests"
)
SINK_WRITER_COORDINATOR_CACHE_SOFT_VALUES = idle(
    FLINK, "sink.writer-coordinator.cache-soft-values", BOOL, True, "Lets manifests go when memory is short"
)
SINK_WRITER_COORDINATOR_PAGE_SIZE = idle(
    FLINK, "sink.writer-coordinator.page-size", MEMORY, 32 << 10, "Size of an answer of that coordinator"
)
SINK_WRITER_COORDINATOR_PREFETCH_MANIFESTS = idle(
    FLINK, "sink.writer-coordinator.prefetch-manifests", BOOL, False, "Reads manifests ahead"
)
FILESYSTEM_JOB_LEVEL_SETTINGS_ENABLED = idle(
    FLINK, "filesystem.job-level-settings.enabled", BOOL, True, "Takes settings of file systems from the job"
)
SINK_WRITER_REFRESH_DETECTORS = idle(
    FLINK, "sink.writer-refresh-detectors", TEXT, None, "What makes writers look at options anew"
)
