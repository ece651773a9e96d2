"""Maintenance: compaction, commits, manifests, and how long snapshots, partitions, consumers and tags stay."""

from __future__ import annotations

from datetime import timedelta

from morrow.engine.options.declarations import (
    BOOL,
    DURATION,
    INT,
    JAVA_CLASSES,
    LONG,
    MEMORY,
    NAMES,
    OTHER_ROWS,
    REAL,
    TEXT,
    TUNING,
    WORD,
    ExpireStrategy,
    Period,
    PeriodFormatter,
    Stage,
    TagCreation,
    declare_all_idle,
    declare_honoured,
    declare_refused,
    explain_dependency,
    make_choice,
    make_enum_choice,
    refuse_unless,
)

CLUSTERS_WHOLE = "Table.compact sorts all rows of the files that it picks, in every partition"

WRITE_ONLY = declare_honoured(
    "write-only", BOOL, False, "Leaves compaction and expiry to others", former=("write.compaction-skip",)
)
COMMIT_FORCE_COMPACT = declare_honoured("commit.force-compact", BOOL, False, "Compacts before each commit")
NUM_SORTED_RUN_COMPACTION_TRIGGER = declare_honoured(
    "num-sorted-run.compaction-trigger", INT, 5, "Sorted runs of a bucket that start a compaction"
)
NUM_SORTED_RUN_STOP_TRIGGER = declare_honoured(
    "num-sorted-run.stop-trigger",
    INT,
    None,
    "Sorted runs at which writers wait for compaction; three above the trigger if not set",
)
NUM_LEVELS = declare_honoured("num-levels", INT, None, "Levels of a merge tree; one above the trigger if not set")
COMPACTION_MAX_SIZE_AMPLIFICATION_PERCENT = declare_honoured(
    "compaction.max-size-amplification-percent",
    INT,
    200,
    "Size of newer runs, in percent of the oldest, that starts a full compaction",
)
COMPACTION_SIZE_RATIO = declare_honoured(
    "compaction.size-ratio", INT, 1, "Difference in percent up to which runs count as equally large"
)
COMPACTION_FORCE_UP_LEVEL_0 = declare_honoured(
    "compaction.force-up-level-0", BOOL, False, "Takes all of level 0 into each compaction"
)
COMPACTION_OFFPEAK_START_HOUR = declare_honoured(
    "compaction.offpeak.start.hour", INT, -1, "Hour of the day at which the quiet time begins; -1: there is none"
)
COMPACTION_OFFPEAK_END_HOUR = declare_honoured(
    "compaction.offpeak.end.hour", INT, -1, "Hour of the day at which the quiet time ends; -1: there is none"
)
COMPACTION_OFFPEAK_RATIO = declare_honoured(
    "compaction.offpeak-ratio", INT, 0, "'compaction.size-ratio' in the quiet time"
)
COMPACTION_OPTIMIZATION_INTERVAL = declare_honoured(
    "compaction.optimization-interval", DURATION, None, "How often a full compaction is made"
)
COMPACTION_TOTAL_SIZE_THRESHOLD = declare_honoured(
    "compaction.total-size-threshold", MEMORY, None, "Size up to which a bucket is always compacted fully"
)
COMPACTION_INCREMENTAL_SIZE_THRESHOLD = declare_honoured(
    "compaction.incremental-size-threshold", MEMORY, None, "Size of newer runs that starts a full compaction"
)
COMPACTION_MIN_FILE_NUM = declare_honoured(
    "compaction.min.file-num", INT, 5, "Small files of an append table that start a compaction"
)
COMPACTION_FILE_NUM_LIMIT = declare_honoured(
    "compaction.file-num-limit", INT, 100_000, "Most files of one compaction of an append table"
)
COMPACTION_SMALL_FILE_RATIO = declare_honoured(
    "compaction.small-file-ratio",
    REAL,
    0.7,
    "Share of 'target-file-size' below which a file of an append table is small",
)
COMPACTION_DELETE_RATIO_THRESHOLD = declare_honoured(
    "compaction.delete-ratio-threshold",
    REAL,
    0.2,
    "Share of dead rows that makes a file of an append table worth a rewrite",
)
COMPACTION_FORCE_REWRITE_ALL_FILES = declare_honoured(
    "compaction.force-rewrite-all-files", BOOL, False, "Rewrites all files in a full compaction"
)
COMPACTION_SKIP_EXPIRED_PARTITIONS = declare_honoured(
    "compaction.skip-expired-partitions", BOOL, False, "Leaves expired partitions out of `Table.compact`"
)
FULL_COMPACTION_DELTA_COMMITS = declare_honoured(
    "full-compaction.delta-commits", INT, None, "Commits after which a full compaction is made"
)
OVERWRITE_UPGRADE = declare_honoured(
    "overwrite-upgrade", BOOL, True, "Lifts overwritten files to the top level at once"
)
SORT_COMPACTION_RANGE_STRATEGY = declare_honoured(
    "sort-compaction.range-strategy",
    make_choice("size", "quantity"),
    "size",
    "Whether ranges of a sort compaction hold equal sizes or equal counts",
)
ZORDER_VAR_LENGTH_CONTRIBUTION = declare_honoured(
    "zorder.var-length-contribution", INT, 8, "Bytes of text that take part in a z-order"
)
CLUSTERING_COLUMNS = declare_honoured(
    "clustering.columns",
    NAMES,
    (),
    "Sorts each commit's rows by these columns; in append tables without buckets, row tracking and BLOB columns",
    former=("sink.clustering.by-columns",),
)
CLUSTERING_STRATEGY = declare_honoured(
    "clustering.strategy",
    make_choice("auto", "order", "zorder", "hilbert"),
    "auto",
    "Order of the rows; auto is order for 1 column, zorder for 2 to 4, hilbert for more",
    former=("sink.clustering.strategy",),
)
CLUSTERING_INCREMENTAL = declare_honoured(
    "clustering.incremental", BOOL, False, "Compactions sort append tables by the columns, some files at a time"
)
PK_CLUSTERING_OVERRIDE = declare_refused(
    refuse_unless(OTHER_ROWS, ("false",), Stage.READING, Stage.WRITING),
    "pk-clustering-override",
    BOOL,
    False,
    "Sorts files of a primary-key table by other columns than the key",
    immutable=True,
    rows=True,
)

COMMIT_TIMEOUT = declare_honoured("commit.timeout", DURATION, None, "How long a commit is tried")
COMMIT_MAX_RETRIES = declare_honoured("commit.max-retries", INT, 10, "How often a commit is tried again")
COMMIT_MIN_RETRY_WAIT = declare_honoured(
    "commit.min-retry-wait", DURATION, timedelta(milliseconds=10), "Wait before a commit is tried again"
)
COMMIT_MAX_RETRY_WAIT = declare_honoured(
    "commit.max-retry-wait", DURATION, timedelta(seconds=10), "Longest wait before a commit is tried again"
)
COMMIT_FORCE_CREATE_SNAPSHOT = declare_honoured(
    "commit.force-create-snapshot", BOOL, False, "Makes a snapshot of a commit without changes"
)
COMMIT_USER_PREFIX = declare_honoured("commit.user-prefix", TEXT, None, "Begins the name of the commit user")
COMMIT_CALLBACKS = declare_refused(
    refuse_unless(JAVA_CLASSES, (), Stage.WRITING),
    "commit.callbacks",
    TEXT,
    None,
    "Java classes that are called at commits",
)
COMMIT_DISCARD_DUPLICATE_FILES = declare_refused(
    refuse_unless("Morrow refuses files that are there already", ("false",), Stage.WRITING),
    "commit.discard-duplicate-files",
    BOOL,
    False,
    "Leaves files out of a commit that are there already",
)
COMMIT_STRICT_MODE_LAST_SAFE_SNAPSHOT = declare_refused(
    refuse_unless(
        "Morrow checks what a commit read in its own way: update, delete and merge are serialised", (), Stage.WRITING
    ),
    "commit.strict-mode.last-safe-snapshot",
    LONG,
    None,
    "Refuses a commit when others have changed the table since",
)
DYNAMIC_PARTITION_OVERWRITE = declare_honoured(
    "dynamic-partition-overwrite", BOOL, True, "Overwrites the partitions of the new rows only"
)
SNAPSHOT_IGNORE_EMPTY_COMMIT = declare_honoured(
    "snapshot.ignore-empty-commit", BOOL, True, "Makes no snapshot of a commit without changes"
)
MANIFEST_FORMAT = declare_honoured("manifest.format", WORD, "avro", "Format of manifests", immutable=True)
MANIFEST_COMPRESSION = declare_honoured("manifest.compression", WORD, "zstd", "Codec of manifests")
MANIFEST_TARGET_FILE_SIZE = declare_honoured(
    "manifest.target-file-size", MEMORY, 8 << 20, "Size at which a manifest is closed"
)
MANIFEST_FULL_COMPACTION_THRESHOLD_SIZE = declare_honoured(
    "manifest.full-compaction-threshold-size",
    MEMORY,
    16 << 20,
    "Size of changes that starts a full rewrite of manifests",
)
MANIFEST_MERGE_MIN_COUNT = declare_honoured("manifest.merge-min-count", INT, 30, "Small manifests that are merged")
MANIFEST_DELETE_FILE_DROP_STATS = declare_honoured(
    "manifest.delete-file-drop-stats", BOOL, False, "Drops statistics of deleted files from manifests"
)
MANIFEST_SORT_ENABLED = declare_refused(
    refuse_unless("Morrow writes manifests in the order of their files", ("false",), Stage.WRITING),
    "manifest-sort.enabled",
    BOOL,
    False,
    "Sorts the entries of manifests by partition",
)
VISIBILITY_CALLBACK_ENABLED = declare_refused(
    refuse_unless(JAVA_CLASSES, ("false",), Stage.WRITING),
    "visibility-callback.enabled",
    BOOL,
    False,
    "Waits after a commit until rows are visible",
)

SNAPSHOT_NUM_RETAINED_MIN = declare_honoured("snapshot.num-retained.min", INT, 10, "Newest snapshots that always stay")
SNAPSHOT_NUM_RETAINED_MAX = declare_honoured("snapshot.num-retained.max", INT, 2**31 - 1, "Most snapshots that stay")
SNAPSHOT_TIME_RETAINED = declare_honoured(
    "snapshot.time-retained", DURATION, timedelta(hours=1), "Age at which a snapshot may go"
)
SNAPSHOT_EXPIRE_LIMIT = declare_honoured(
    "snapshot.expire.limit", INT, 50, "Most snapshots that a writer removes after a commit"
)
SNAPSHOT_CLEAN_EMPTY_DIRECTORIES = declare_honoured(
    "snapshot.clean-empty-directories",
    BOOL,
    False,
    "Removes folders that expiry has emptied",
    former=("snapshot.expire.clean-empty-directories",),
)
SNAPSHOT_WATERMARK_IDLE_TIMEOUT = declare_honoured(
    "snapshot.watermark-idle-timeout", DURATION, None, "How long a watermark may rest before a tag is made without it"
)
CHANGELOG_NUM_RETAINED_MIN = declare_honoured(
    "changelog.num-retained.min", INT, None, "Newest changelogs that always stay; as for snapshots if not set"
)
CHANGELOG_NUM_RETAINED_MAX = declare_honoured(
    "changelog.num-retained.max", INT, None, "Most changelogs that stay; as for snapshots if not set"
)
CHANGELOG_TIME_RETAINED = declare_honoured(
    "changelog.time-retained", DURATION, None, "Age at which a changelog may go; as for snapshots if not set"
)
CONSUMER_EXPIRATION_TIME = declare_honoured(
    "consumer.expiration-time", DURATION, None, "Age at which a consumer that does not read is forgotten"
)
CONSUMER_CHANGELOG_ONLY = declare_honoured(
    "consumer.changelog-only", BOOL, False, "Keeps changelogs for consumers, and no snapshots"
)
PARTITION_EXPIRATION_STRATEGY = declare_honoured(
    "partition.expiration-strategy",
    make_enum_choice(ExpireStrategy, is_open=True),
    ExpireStrategy.VALUES_TIME,
    "Whether a partition's age is that of its values or of its files",
)
PARTITION_EXPIRATION_TIME = declare_honoured(
    "partition.expiration-time", DURATION, None, "Age at which a partition is dropped"
)
PARTITION_EXPIRATION_CHECK_INTERVAL = declare_honoured(
    "partition.expiration-check-interval", DURATION, timedelta(hours=1), "How often writers look for expired partitions"
)
PARTITION_EXPIRATION_MAX_NUM = declare_honoured(
    "partition.expiration-max-num", INT, 100, "Most partitions that a writer drops at a time"
)
PARTITION_EXPIRATION_BATCH_SIZE = declare_honoured(
    "partition.expiration-batch-size", INT, None, "Partitions that one commit drops; all if not set"
)
PARTITION_TIMESTAMP_FORMATTER = declare_honoured(
    "partition.timestamp-formatter", TEXT, None, "Reads a time from the values of a partition"
)
PARTITION_TIMESTAMP_PATTERN = declare_honoured(
    "partition.timestamp-pattern", TEXT, None, "Makes the text of a time from the values of a partition"
)
PARTITION_TIMESTAMP_FORMAT_STRICT = declare_honoured(
    "partition.timestamp-format.strict", BOOL, False, "Refuses rows of partitions whose time cannot be read"
)
END_INPUT_CHECK_PARTITION_EXPIRE = declare_honoured(
    "end-input.check-partition-expire", BOOL, False, "Looks for expired partitions at the end of a batch"
)
TAG_AUTOMATIC_CREATION = declare_honoured(
    "tag.automatic-creation", make_enum_choice(TagCreation), TagCreation.NONE, "What makes tags without being asked"
)
TAG_CREATE_SUCCESS_FILE = declare_honoured(
    "tag.create-success-file", BOOL, False, "Writes a success file beside each tag"
)
TAG_CREATION_PERIOD = declare_honoured(
    "tag.creation-period", make_enum_choice(Period), Period.DAILY, "How often tags are made"
)
TAG_CREATION_PERIOD_DURATION = declare_honoured(
    "tag.creation-period-duration", DURATION, None, "How often tags are made, as a time span"
)
TAG_CREATION_DELAY = declare_honoured(
    "tag.creation-delay", DURATION, timedelta(), "How long after the end of a period its tag is made"
)
TAG_PERIOD_FORMATTER = declare_honoured(
    "tag.period-formatter",
    make_enum_choice(PeriodFormatter),
    PeriodFormatter.WITH_DASHES,
    "How tags are named after their periods",
)
TAG_NUM_RETAINED_MAX = declare_honoured("tag.num-retained-max", INT, None, "Most automatic tags that stay")
TAG_DEFAULT_TIME_RETAINED = declare_honoured(
    "tag.default-time-retained", DURATION, None, "Age at which a tag is removed"
)
TAG_TIME_EXPIRE_ENABLED = declare_honoured("tag.time-expire-enabled", BOOL, True, "Removes tags whose time has come")
TAG_AUTOMATIC_COMPLETION = declare_honoured(
    "tag.automatic-completion", BOOL, False, "Makes the tags of periods that were missed"
)
TAG_BATCH_CUSTOMIZED_NAME = declare_honoured(
    "tag.batch.customized-name", TEXT, None, "Name of the tag that a batch makes"
)
TAG_CREATE_TIME = declare_honoured(
    "tag.create-time", TEXT, None, "Time of day at which a tag is made, of the proposal for tags"
)
TAG_CREATE_INTERVAL = declare_honoured(
    "tag.create-interval", DURATION, None, "Days between two tags, of the proposal for tags"
)
TAG_CALLBACKS = declare_refused(
    refuse_unless(JAVA_CLASSES, (), Stage.WRITING),
    "tag.callbacks",
    TEXT,
    None,
    "Java classes that are called when tags are made",
)
SINK_WATERMARK_TIME_ZONE = declare_honoured(
    "sink.watermark-time-zone", TEXT, "UTC", "Time zone of the periods of watermarks"
)
SINK_PROCESS_TIME_ZONE = declare_honoured(
    "sink.process-time-zone", TEXT, None, "Time zone of the periods of the clock; that of the machine if not set"
)

IDLE = declare_all_idle(
    {
        TUNING: [
            (
                "sort-compaction.local-sample.magnification",
                INT,
                1000,
                "Sampled rows for each range of a sort compaction",
            ),
            ("manifest.merge-optimize.enabled", BOOL, True, "Merges manifests block by block"),
        ],
        CLUSTERS_WHOLE: [
            (
                "clustering.incremental.mode",
                make_choice("global-sort", "local-sort"),
                "global-sort",
                "How far incremental clustering sorts",
            ),
            ("clustering.incremental.optimize-write", BOOL, False, "Clusters rows before they are written"),
            ("clustering.history-partition.limit", INT, 5, "Older partitions that are clustered at a time"),
            (
                "clustering.history-partition.idle-to-full-sort",
                DURATION,
                None,
                "How long a partition is quiet before it is sorted fully",
            ),
        ],
        explain_dependency("commit.callbacks"): [
            ("commit.callback.#.param", TEXT, None, "Argument of a callback class"),
            ("tag.callback.#.param", TEXT, None, "Argument of a callback class"),
        ],
        explain_dependency("manifest-sort.enabled"): [
            ("manifest-sort.partition-field", TEXT, None, "Partition column by which entries are sorted"),
            ("manifest-sort.max-rewrite-size", MEMORY, 256 << 20, "Size of manifests that are sorted at a time"),
        ],
        explain_dependency("visibility-callback.enabled"): [
            ("visibility-callback.timeout", DURATION, timedelta(minutes=30), "How long a commit waits for visibility"),
            (
                "visibility-callback.check-interval",
                DURATION,
                timedelta(seconds=10),
                "How often a commit looks whether it is visible",
            ),
        ],
        "expiry is complete when the commit returns": [
            (
                "snapshot.expire.execution-mode",
                make_choice("sync", "async"),
                "sync",
                "Whether a commit waits for expiry",
            )
        ],
    }
)
