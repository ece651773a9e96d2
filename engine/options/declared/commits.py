"""Commits and manifests."""

from __future__ import annotations

from datetime import timedelta

from morrow.engine.options.declaring import JAVA_CLASSES, TUNING, Stage, beside, honoured, idle, refused, unless
from morrow.engine.options.kinds import BOOL, DURATION, INT, LONG, MEMORY, TEXT, WORD

COMMIT_TIMEOUT = honoured("commit.timeout", DURATION, None, "How long a commit is tried")
COMMIT_MAX_RETRIES = honoured("commit.max-retries", INT, 10, "How often a commit is tried again")
COMMIT_MIN_RETRY_WAIT = honoured(
    "commit.min-retry-wait", DURATION, timedelta(milliseconds=10), "Wait before a commit is tried again"
)
COMMIT_MAX_RETRY_WAIT = honoured(
    "commit.max-retry-wait", DURATION, timedelta(seconds=10), "Longest wait before a commit is tried again"
)
COMMIT_FORCE_CREATE_SNAPSHOT = honoured(
    "commit.force-create-snapshot", BOOL, False, "Makes a snapshot of a commit without changes"
)
COMMIT_USER_PREFIX = honoured("commit.user-prefix", TEXT, None, "Begins the name of the commit user")
COMMIT_CALLBACKS = refused(
    unless(JAVA_CLASSES, (), Stage.WRITING), "commit.callbacks", TEXT, None, "Java classes that are called at commits"
)
COMMIT_CALLBACK_PARAM = idle(
    beside("commit.callbacks"), "commit.callback.#.param", TEXT, None, "Argument of such a class"
)
COMMIT_DISCARD_DUPLICATE_FILES = refused(
    unless("Morrow refuses files that are there already", ("false",), Stage.WRITING),
    "commit.discard-duplicate-files",
    BOOL,
    False,
    "Leaves files out of a commit that are there already",
)
COMMIT_STRICT_MODE_LAST_SAFE_SNAPSHOT = refused(
    unless(
        "Morrow checks what a commit read in its own way: update, delete and merge are serialised", (), Stage.WRITING
    ),
    "commit.strict-mode.last-safe-snapshot",
    LONG,
    None,
    "Refuses a commit when others have changed the table since",
)
DYNAMIC_PARTITION_OVERWRITE = honoured(
    "dynamic-partition-overwrite", BOOL, True, "Overwrites the partitions of the new rows only"
)
SNAPSHOT_IGNORE_EMPTY_COMMIT = honoured(
    "snapshot.ignore-empty-commit", BOOL, True, "Makes no snapshot of a commit without changes"
)
MANIFEST_FORMAT = honoured("manifest.format", WORD, "avro", "Format of manifests")
MANIFEST_COMPRESSION = honoured("manifest.compression", WORD, "zstd", "Codec of manifests")
MANIFEST_TARGET_FILE_SIZE = honoured("manifest.target-file-size", MEMORY, 8 << 20, "Size at which a manifest is closed")
MANIFEST_FULL_COMPACTION_THRESHOLD_SIZE = honoured(
    "manifest.full-compaction-threshold-size",
    MEMORY,
    16 << 20,
    "Size of changes that starts a full rewrite of manifests",
)
MANIFEST_MERGE_MIN_COUNT = honoured("manifest.merge-min-count", INT, 30, "Small manifests that are merged")
MANIFEST_DELETE_FILE_DROP_STATS = honoured(
    "manifest.delete-file-drop-stats", BOOL, False, "Drops statistics of deleted files from manifests"
)
MANIFEST_MERGE_OPTIMIZE_ENABLED = idle(
    TUNING, "manifest.merge-optimize.enabled", BOOL, True, "Merges manifests block by block"
)
MANIFEST_SORT_ENABLED = refused(
    unless("Morrow writes manifests in the order of their files", ("false",), Stage.WRITING),
    "manifest-sort.enabled",
    BOOL,
    False,
    "Sorts the entries of manifests by partition",
)
MANIFEST_SORT_PARTITION_FIELD = idle(
    beside("manifest-sort.enabled"),
    "manifest-sort.partition-field",
    TEXT,
    None,
    "Partition column by which entries are sorted",
)
MANIFEST_SORT_MAX_REWRITE_SIZE = idle(
    beside("manifest-sort.enabled"),
    "manifest-sort.max-rewrite-size",
    MEMORY,
    256 << 20,
    "Size of manifests that are sorted at a time",
)
VISIBILITY_CALLBACK_ENABLED = refused(
    unless(JAVA_CLASSES, ("false",), Stage.WRITING),
    "visibility-callback.enabled",
    BOOL,
    False,
    "Waits after a commit until rows are visible",
)
VISIBILITY_CALLBACK_TIMEOUT = idle(
    beside("visibility-callback.enabled"),
    "visibility-callback.timeout",
    DURATION,
    timedelta(minutes=30),
    "How long that wait lasts at most",
)
VISIBILITY_CALLBACK_CHECK_INTERVAL = idle(
    beside("visibility-callback.enabled"),
    "visibility-callback.check-interval",
    DURATION,
    timedelta(seconds=10),
    "How often it looks",
)
