"""Where reads begin and end, and what they see."""

from __future__ import annotations

from morrow.engine.options.declarations import (
    ALWAYS_RAISES,
    BOOL,
    CHANGES,
    DURATION,
    FLINK,
    INT,
    LONG,
    MEMORY,
    OTHER_ROWS,
    TEXT,
    TUNING,
    Stage,
    declare_all_idle,
    declare_honoured,
    declare_idle,
    declare_refused,
    explain_dependency,
    make_choice,
    refuse_unless,
)

SCAN_MODE = declare_honoured(
    "scan.mode",
    make_choice(
        "default",
        "latest-full",
        "full",
        "latest",
        "latest-delta",
        "compacted-full",
        "from-timestamp",
        "from-creation-timestamp",
        "from-file-creation-time",
        "from-snapshot",
        "from-snapshot-full",
        "incremental",
    ),
    "default",
    "Where a read begins",
    former=("log.scan",),
    refusal=refuse_unless(
        OTHER_ROWS,
        ("default", "latest-full", "full", "latest", "from-snapshot", "from-snapshot-full", "from-timestamp"),
        Stage.READING,
    ),
)
SCAN_SNAPSHOT_ID = declare_honoured("scan.snapshot-id", LONG, None, "Snapshot that is read")
SCAN_TAG_NAME = declare_honoured("scan.tag-name", TEXT, None, "Tag that is read")
SCAN_TIMESTAMP = declare_honoured("scan.timestamp", TEXT, None, "Time whose snapshot is read, as text")
SCAN_TIMESTAMP_MILLIS = declare_honoured(
    "scan.timestamp-millis",
    LONG,
    None,
    "Time whose snapshot is read, in milliseconds since 1970",
    former=("log.scan.timestamp-millis",),
)
SCAN_WATERMARK = declare_honoured("scan.watermark", LONG, None, "Reads the first snapshot with at least this watermark")
SCAN_VERSION = declare_honoured("scan.version", TEXT, None, "Tag, snapshot or time that is read")
SCAN_CREATION_TIME_MILLIS = declare_refused(
    refuse_unless(OTHER_ROWS, (), Stage.READING),
    "scan.creation-time-millis",
    LONG,
    None,
    "Reads what was created after a time",
)
SCAN_FILE_CREATION_TIME_MILLIS = declare_refused(
    refuse_unless(OTHER_ROWS, (), Stage.READING),
    "scan.file-creation-time-millis",
    LONG,
    None,
    "Reads files that were created after a time",
)
SCAN_BUCKET = declare_refused(
    refuse_unless(OTHER_ROWS, (), Stage.READING), "scan.bucket", INT, None, "Reads one bucket only"
)
SCAN_FALLBACK_BRANCH = declare_honoured(
    "scan.fallback-branch", TEXT, None, "Branch from which partitions are read that this one lacks", rows=True
)
SCAN_PRIMARY_BRANCH = declare_honoured(
    "scan.primary-branch", TEXT, None, "Branch whose partitions are read before those of this one", rows=True
)
SCAN_BOUNDED_WATERMARK = declare_honoured(
    "scan.bounded.watermark", LONG, None, "Ends a stream at the first snapshot with a greater watermark"
)
SCAN_IGNORE_CORRUPT_FILES = declare_honoured(
    "scan.ignore-corrupt-files", BOOL, False, "Leaves out damaged files, which every read then decodes first", rows=True
)
SCAN_IGNORE_LOST_FILES = declare_honoured(
    "scan.ignore-lost-files", BOOL, False, "Leaves out files that are missing", rows=True
)
SCAN_PLAN_SORT_PARTITION = declare_refused(
    refuse_unless("Morrow's reads have no order; sort the rows", ("false",)),
    "scan.plan-sort-partition",
    BOOL,
    False,
    "Reads partitions in their order",
)
SCAN_PLAN_AUTO_TAG_FOR_READ_TIME_RETAINED = declare_refused(
    refuse_unless("make the tag with Table.tags.create"),
    "scan.plan-auto-tag-for-read.time-retained",
    DURATION,
    None,
    "Makes a tag for the time of a read",
)
BATCH_SCAN_MODE = declare_refused(
    refuse_unless(OTHER_ROWS, ("none",), Stage.READING),
    "batch-scan-mode",
    make_choice("none", "compact"),
    "none",
    "Makes reads those of a dedicated compaction job",
)
STREAM_SCAN_MODE = declare_refused(
    refuse_unless("Morrow's streams read changes of rows", ("none",), Stage.STREAMING),
    "stream-scan-mode",
    make_choice("none", "compact-bucket-table", "file-monitor"),
    "none",
    "Makes streams those of a dedicated compaction job",
)
INCREMENTAL_BETWEEN = declare_refused(
    refuse_unless(CHANGES, (), Stage.READING),
    "incremental-between",
    TEXT,
    None,
    "Reads what changed between two snapshots or tags",
)
INCREMENTAL_BETWEEN_TIMESTAMP = declare_refused(
    refuse_unless(CHANGES, (), Stage.READING),
    "incremental-between-timestamp",
    TEXT,
    None,
    "Reads what changed between two times",
)
INCREMENTAL_TO_AUTO_TAG = declare_refused(
    refuse_unless(CHANGES, (), Stage.READING),
    "incremental-to-auto-tag",
    TEXT,
    None,
    "Reads what changed up to an automatic tag",
)
INCREMENTAL_BETWEEN_SCAN_MODE = declare_idle(
    explain_dependency("incremental-between"),
    "incremental-between-scan-mode",
    make_choice("auto", "delta", "changelog", "diff", "raw"),
    "auto",
    "Where such changes are taken from",
)
INCREMENTAL_BETWEEN_TAG_TO_SNAPSHOT = declare_idle(
    explain_dependency("incremental-between"),
    "incremental-between-tag-to-snapshot",
    BOOL,
    False,
    "Takes the tags of such changes as their snapshots",
)
CONSUMER_ID = declare_honoured("consumer-id", TEXT, None, "Consumer of a stream that is given none")
CONSUMER_IGNORE_PROGRESS = declare_honoured(
    "consumer.ignore-progress", BOOL, False, "Begins a stream anew, whatever its consumer has recorded"
)
CONTINUOUS_DISCOVERY_INTERVAL = declare_honoured(
    "continuous.discovery-interval",
    DURATION,
    None,
    "How often a stream looks for new snapshots; each second if not set",
)
STREAMING_READ_SNAPSHOT_DELAY = declare_honoured(
    "streaming.read.snapshot.delay", DURATION, None, "How old a snapshot is before a stream reads it"
)
STREAMING_READ_OVERWRITE = declare_honoured(
    "streaming-read-overwrite", BOOL, False, "Streams read what overwrites have written"
)
STREAMING_READ_APPEND_OVERWRITE = declare_honoured(
    "streaming-read-append-overwrite", BOOL, False, "Streams read what overwrites of append tables have written"
)
SOURCE_SPLIT_TARGET_SIZE = declare_idle(
    TUNING, "source.split.target-size", MEMORY, 128 << 20, "Size of a split of a read"
)
SOURCE_SPLIT_OPEN_FILE_COST = declare_honoured(
    "source.split.open-file-cost",
    MEMORY,
    4 << 20,
    "Size that a file counts at least when append files are compacted together",
)

IDLE = declare_all_idle(
    {
        ALWAYS_RAISES: [
            ("scan.fallback-branch.read-fail-fast", BOOL, False, "Raises what goes wrong in the fallback branch")
        ],
        TUNING: [("scan.manifest.parallelism", INT, None, "Threads that read manifests")],
        FLINK: [
            ("scan.max-splits-per-task", INT, 10, "Splits that a task holds"),
            (
                "consumer.mode",
                make_choice("exactly-once", "at-least-once"),
                "exactly-once",
                "Whether a consumer's progress is recorded with checkpoints",
            ),
        ],
    }
)
