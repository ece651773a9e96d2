"""Which files are compacted, when, and how they are sorted."""

from __future__ import annotations

from morrow.engine.options.declaring import OTHER_ROWS, TUNING, Stage, beside, honoured, idle, refused, unless
from morrow.engine.options.kinds import BOOL, DURATION, INT, MEMORY, NAMES, REAL, TEXT, words

WRITE_ONLY = honoured(
    "write-only", BOOL, False, "Leaves compaction and expiry to others", former=("write.compaction-skip",)
)
COMMIT_FORCE_COMPACT = honoured("commit.force-compact", BOOL, False, "Compacts before each commit")
NUM_SORTED_RUN_COMPACTION_TRIGGER = honoured(
    "num-sorted-run.compaction-trigger", INT, 5, "Sorted runs of a bucket that start a compaction"
)
NUM_SORTED_RUN_STOP_TRIGGER = honoured(
    "num-sorted-run.stop-trigger",
    INT,
    None,
    "Sorted runs at which writers wait for compaction; three above the trigger if not set",
)
NUM_LEVELS = honoured("num-levels", INT, None, "Levels of a merge tree; one above the trigger if not set")
COMPACTION_MAX_SIZE_AMPLIFICATION_PERCENT = honoured(
    "compaction.max-size-amplification-percent",
    INT,
    200,
    "Size of newer runs, in percent of the oldest, that starts a full compaction",
)
COMPACTION_SIZE_RATIO = honoured(
    "compaction.size-ratio", INT, 1, "Difference in percent up to which runs count as equally large"
)
COMPACTION_FORCE_UP_LEVEL_0 = honoured(
    "compaction.force-up-level-0", BOOL, False, "Takes all of level 0 into each compaction"
)
COMPACTION_OFFPEAK_START_HOUR = honoured(
    "compaction.offpeak.start.hour", INT, -1, "Hour of the day at which the quiet time begins; -1: there is none"
)
COMPACTION_OFFPEAK_END_HOUR = honoured(
    "compaction.offpeak.end.hour", INT, -1, "Hour of the day at which the quiet time ends; -1: there is none"
)
COMPACTION_OFFPEAK_RATIO = honoured("compaction.offpeak-ratio", INT, 0, "'compaction.size-ratio' in the quiet time")
COMPACTION_OPTIMIZATION_INTERVAL = honoured(
    "compaction.optimization-interval", DURATION, None, "How often a full compaction is made"
)
COMPACTION_TOTAL_SIZE_THRESHOLD = honoured(
    "compaction.total-size-threshold", MEMORY, None, "Size up to which a bucket is always compacted fully"
)
COMPACTION_INCREMENTAL_SIZE_THRESHOLD = honoured(
    "compaction.incremental-size-threshold", MEMORY, None, "Size of newer runs that starts a full compaction"
)
COMPACTION_MIN_FILE_NUM = honoured(
    "compaction.min.file-num", INT, 5, "Small files of an append table that start a compaction"
)
COMPACTION_FILE_NUM_LIMIT = honoured(
    "compaction.file-num-limit", INT, 100_000, "Most files of one compaction of an append table"
)
COMPACTION_SMALL_FILE_RATIO = honoured(
    "compaction.small-file-ratio",
    REAL,
    0.7,
    "Share of 'target-file-size' below which a file of an append table is small",
)
COMPACTION_DELETE_RATIO_THRESHOLD = honoured(
    "compaction.delete-ratio-threshold",
    REAL,
    0.2,
    "Share of dead rows that makes a file of an append table worth a rewrite",
)
COMPACTION_FORCE_REWRITE_ALL_FILES = honoured(
    "compaction.force-rewrite-all-files", BOOL, False, "Rewrites all files in a full compaction"
)
COMPACTION_SKIP_EXPIRED_PARTITIONS = refused(
    unless("Morrow compacts the partitions that it is given; name those that are wanted", ("false",)),
    "compaction.skip-expired-partitions",
    BOOL,
    False,
    "Leaves expired partitions out of compactions",
)
FULL_COMPACTION_DELTA_COMMITS = honoured(
    "full-compaction.delta-commits", INT, None, "Commits after which a full compaction is made"
)
OVERWRITE_UPGRADE = honoured("overwrite-upgrade", BOOL, True, "Lifts overwritten files to the top level at once")
SORT_COMPACTION_RANGE_STRATEGY = honoured(
    "sort-compaction.range-strategy",
    words("size", "quantity"),
    "size",
    "Whether ranges of a sort compaction hold equal sizes or equal counts",
)
SORT_COMPACTION_LOCAL_SAMPLE_MAGNIFICATION = idle(
    TUNING, "sort-compaction.local-sample.magnification", INT, 1000, "Sampled rows for each range of a sort compaction"
)
ZORDER_VAR_LENGTH_CONTRIBUTION = honoured(
    "zorder.var-length-contribution", INT, 8, "Bytes of text that take part in a z-order"
)
CLUSTERING_COLUMNS = refused(
    unless("call compact(order_by=...) after writing, which sorts files"),
    "clustering.columns",
    NAMES,
    (),
    "Sorts the rows of a batch by these columns when it is written",
    former=("sink.clustering.by-columns",),
)
CLUSTERING_STRATEGY = idle(
    beside("clustering.columns"),
    "clustering.strategy",
    TEXT,
    "auto",
    "Curve that sorts the rows of a batch",
    former=("sink.clustering.strategy",),
)
CLUSTERING_INCREMENTAL = honoured(
    "clustering.incremental", BOOL, False, "Leaves the files of an append table to incremental clustering"
)
CLUSTERING_INCREMENTAL_MODE = idle(
    beside("clustering.columns"),
    "clustering.incremental.mode",
    words("global-sort", "local-sort"),
    "global-sort",
    "How far incremental clustering sorts",
)
CLUSTERING_INCREMENTAL_OPTIMIZE_WRITE = idle(
    beside("clustering.columns"),
    "clustering.incremental.optimize-write",
    BOOL,
    False,
    "Clusters rows before they are written",
)
CLUSTERING_HISTORY_PARTITION_LIMIT = idle(
    beside("clustering.columns"),
    "clustering.history-partition.limit",
    INT,
    5,
    "Older partitions that are clustered at a time",
)
CLUSTERING_HISTORY_PARTITION_IDLE_TO_FULL_SORT = idle(
    beside("clustering.columns"),
    "clustering.history-partition.idle-to-full-sort",
    DURATION,
    None,
    "How long a partition is quiet before it is sorted fully",
)
PK_CLUSTERING_OVERRIDE = refused(
    unless(OTHER_ROWS, ("false",), Stage.READING, Stage.WRITING),
    "pk-clustering-override",
    BOOL,
    False,
    "Sorts files of a primary-key table by other columns than the key",
    immutable=True,
    rows=True,
)
