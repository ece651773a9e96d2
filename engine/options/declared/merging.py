"""How versions of a row are merged: engine, order, retractions, changelogs, deletion vectors."""

from __future__ import annotations

from datetime import timedelta

from morrow.engine.options.declarations import (
    BOOL,
    DURATION,
    FLINK,
    INT,
    INTERNAL,
    LONG,
    MAX_LONG,
    MEMORY,
    MERGE_ENGINE_NAME,
    NAMES,
    NOT_WRITTEN,
    REAL,
    TEXT,
    TUNING,
    WORD,
    ChangelogProducer,
    ColumnOption,
    LookupCompact,
    Stage,
    declare_all_idle,
    declare_honoured,
    declare_refused,
    make_choice,
    make_enum_choice,
    refuse_unless,
)

MERGE_ENGINE = declare_honoured(
    "merge-engine", MERGE_ENGINE_NAME, "deduplicate", "How versions of a key become one row", immutable=True, rows=True
)
SEQUENCE_FIELD = declare_honoured(
    "sequence.field", NAMES, (), "Names the columns that order versions of a key", rows=True
)
SEQUENCE_FIELD_SORT_ORDER = declare_honoured(
    "sequence.field.sort-order",
    make_choice("ascending", "descending"),
    "ascending",
    "Which end of that order is the newest",
    rows=True,
)
SEQUENCE_SNAPSHOT_ORDERING = declare_honoured(
    "sequence.snapshot-ordering",
    BOOL,
    False,
    "Orders versions of a key by the snapshot that brought them; needs 'write-only'",
    immutable=True,
    rows=True,
)
WRITE_SEQUENCE_NUMBER_INIT_MODE = declare_refused(
    refuse_unless("Morrow finds the greatest number in the files of a bucket", ("scan",), Stage.WRITING),
    "write.sequence-number-init-mode",
    make_choice("scan", "snapshot"),
    "scan",
    "Where writers take the next sequence number from",
)
ROWKIND_FIELD = declare_honoured(
    "rowkind.field",
    TEXT,
    None,
    "Names the column that says whether a row is inserted, updated or deleted",
    immutable=True,
    rows=True,
)
IGNORE_DELETE = declare_honoured(
    "ignore-delete",
    BOOL,
    False,
    "Drops deletions",
    former=("first-row.ignore-delete", "deduplicate.ignore-delete", "partial-update.ignore-delete"),
    rows=True,
)
IGNORE_UPDATE_BEFORE = declare_honoured("ignore-update-before", BOOL, False, "Drops the old rows of updates")
AGGREGATION_REMOVE_RECORD_ON_DELETE = declare_honoured(
    "aggregation.remove-record-on-delete",
    BOOL,
    False,
    "Removes a key at a deletion, in place of retracting its values",
    immutable=True,
    rows=True,
)
PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE = declare_honoured(
    "partial-update.remove-record-on-delete", BOOL, False, "Removes a key at a deletion", immutable=True, rows=True
)
PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP = declare_honoured(
    "partial-update.remove-record-on-sequence-group",
    TEXT,
    None,
    "Removes a key at a deletion of these sequence groups",
    immutable=True,
    rows=True,
)
FIELDS_DEFAULT_AGGREGATE_FUNCTION = declare_honoured(
    "fields.default-aggregate-function",
    TEXT,
    None,
    "Aggregate function of columns that have none of their own",
    rows=True,
)
CHANGELOG_PRODUCER = declare_honoured(
    "changelog-producer",
    make_enum_choice(ChangelogProducer),
    ChangelogProducer.NONE,
    "What makes changelog files",
    rows=True,
)
CHANGELOG_PRODUCER_ROW_DEDUPLICATE = declare_honoured(
    "changelog-producer.row-deduplicate", BOOL, False, "Leaves updates that changed nothing out of changelogs"
)
CHANGELOG_PRODUCER_ROW_DEDUPLICATE_IGNORE_FIELDS = declare_honoured(
    "changelog-producer.row-deduplicate-ignore-fields",
    NAMES,
    (),
    "Names columns that are not looked at when updates are compared",
)
DELETE_FORCE_PRODUCE_CHANGELOG = declare_honoured(
    "delete.force-produce-changelog", BOOL, False, "Deletes by rows of deletion, so that the changelog has them"
)
FORCE_LOOKUP = declare_honoured(
    "force-lookup", BOOL, False, "Looks keys up when compacting, whatever needs it", immutable=True, rows=True
)
LOOKUP_WAIT = declare_honoured(
    "lookup-wait",
    BOOL,
    True,
    "Compacts before a commit where lookups are needed",
    former=("changelog-producer.lookup-wait",),
)
LOOKUP_COMPACT = declare_honoured(
    "lookup-compact",
    make_enum_choice(LookupCompact),
    LookupCompact.RADICAL,
    "How eagerly level 0 is compacted where lookups are needed",
)
LOOKUP_COMPACT_MAX_INTERVAL = declare_honoured(
    "lookup-compact.max-interval",
    INT,
    None,
    "Writes after which a gentle lookup compaction is due; twice the compaction trigger if not set",
)
DELETION_VECTORS_ENABLED = declare_honoured(
    "deletion-vectors.enabled", BOOL, False, "Marks dead rows of files by deletion vectors", rows=True
)
DELETION_VECTORS_BITMAP64 = declare_honoured(
    "deletion-vectors.bitmap64", BOOL, False, "Writes deletion vectors with positions of 64 bits"
)
DELETION_VECTORS_MODIFIABLE = declare_honoured(
    "deletion-vectors.modifiable", BOOL, False, "Lets 'deletion-vectors.enabled' be changed"
)
DELETION_VECTORS_MERGE_ON_READ = declare_honoured(
    "deletion-vectors.merge-on-read",
    BOOL,
    False,
    "Shows rows in level 0 of tables with deletion vectors, by a merge",
    rows=True,
)
DELETION_VECTOR_INDEX_FILE_TARGET_SIZE = declare_honoured(
    "deletion-vector.index-file.target-size", MEMORY, 2 << 20, "Size of an index file of deletion vectors"
)
TABLE_READ_SEQUENCE_NUMBER_ENABLED = declare_honoured(
    "table-read.sequence-number.enabled",
    BOOL,
    False,
    "Shows sequence numbers in the system tables audit_log and binlog",
)
RECORD_LEVEL_EXPIRE_TIME = declare_honoured(
    "record-level.expire-time", DURATION, None, "Age at which compactions of a primary-key table drop a row"
)
RECORD_LEVEL_TIME_FIELD = declare_honoured(
    "record-level.time-field",
    TEXT,
    None,
    "Names the column that holds the age of a row",
)
NOT_INDEXED = "Morrow does not build these indexes; it writes tables that have them, and Paimon builds them again"
PK_VECTOR_INDEX_COLUMNS = declare_refused(
    refuse_unless(NOT_INDEXED),
    "pk-vector.index.columns",
    NAMES,
    (),
    "Columns of the primary-key table with a vector index",
)
PK_BTREE_INDEX_COLUMNS = declare_refused(
    refuse_unless(NOT_INDEXED),
    "pk-btree.index.columns",
    NAMES,
    (),
    "Columns of the primary-key table with a B-tree index",
)
PK_BITMAP_INDEX_COLUMNS = declare_refused(
    refuse_unless(NOT_INDEXED),
    "pk-bitmap.index.columns",
    NAMES,
    (),
    "Columns of the primary-key table with a bitmap index",
)
PK_MULTIVALUE_INDEX_COLUMNS = declare_refused(
    refuse_unless(NOT_INDEXED),
    "pk-multivalue.index.columns",
    NAMES,
    (),
    "Columns of the primary-key table with an index of array elements",
)
PK_FULL_TEXT_INDEX_COLUMNS = declare_refused(
    refuse_unless(NOT_WRITTEN, (), Stage.WRITING),
    "pk-full-text.index.columns",
    TEXT,
    None,
    "Columns of the primary-key table with a full-text index",
)

AGGREGATE_FUNCTION = ColumnOption("aggregate-function", TEXT, None, "Function that folds the values of a key")
IGNORE_RETRACT = ColumnOption("ignore-retract", BOOL, False, "Leaves the value as it is when a row is retracted")
SEQUENCE_GROUP = ColumnOption("sequence-group", TEXT, None, "Names the columns that these columns order")
NESTED_KEY = ColumnOption("nested-key", TEXT, None, "Members that tell which nested rows are the same")
NESTED_KEY_NULL_STRATEGY = ColumnOption(
    "nested-key-null-strategy",
    make_choice("merge", "ignore", "error"),
    "merge",
    "What nested rows with a null key do",
)
NESTED_SEQUENCE_FIELD = ColumnOption(
    "nested-sequence-field",
    NAMES,
    (),
    "Members that order nested rows of one key: the greatest stays",
)
COUNT_LIMIT = ColumnOption("count-limit", INT, 2**31 - 1, "Most nested rows that are kept")
DISTINCT = ColumnOption("distinct", BOOL, False, "Keeps equal values once")
LIST_AGG_DELIMITER = ColumnOption("list-agg-delimiter", TEXT, ",", "Stands between joined texts")
TS_FIELD = ColumnOption("ts-field", TEXT, None, "Member that orders the values of a map")
STATS_MODE = ColumnOption(
    "stats-mode", WORD, None, "Statistics of the column; `metadata.stats-mode` if not set", rows=False
)
DEFAULT_VALUE = ColumnOption(
    "default-value",
    TEXT,
    None,
    "Value in place of null, in older versions of Paimon",
    rows=False,
    idle="Paimon has removed it; give the column a default",
)
MAP_STORAGE_LAYOUT = ColumnOption(
    "map.storage-layout",
    make_choice("default", "shared-shredding"),
    "default",
    "How maps are stored",
    rows=False,
)
MAP_STORAGE_LAYOUT_OF_OLD = ColumnOption(
    "map-storage-layout",
    make_choice("default", "shared-shredding"),
    "default",
    "How maps are stored, in early versions",
    rows=False,
    refusal=refuse_unless(NOT_WRITTEN, ("default",), Stage.READING, Stage.WRITING),
)
MAP_SHREDDING_MAX_COLUMNS = ColumnOption(
    "map.shared-shredding.max-columns", INT, 256, "Most columns of a shredded map", rows=False
)
MAP_SHREDDING_PLACEMENT = ColumnOption(
    "map.shared-shredding.column-placement-policy",
    make_choice("plain", "sequential", "lru"),
    "lru",
    "Which column of a shredded map takes a key",
    rows=False,
    idle="keys take columns in their order",
)

IDLE = declare_all_idle(
    {
        INTERNAL: [("key-value.sequence_number.enabled", BOOL, False, "Reads sequence numbers beside rows")],
        TUNING: [
            ("local-merge-buffer-size", MEMORY, None, "Memory in which rows are merged before they are shuffled"),
            ("lookup.hash-load-factor", REAL, 0.75, "Load factor of lookup files"),
            ("lookup.cache-rows", LONG, 10_000, "Rows that a lookup join caches"),
            ("lookup.cache-file-retention", DURATION, timedelta(hours=1), "How long lookup files stay"),
            ("lookup.cache-max-disk-size", MEMORY, MAX_LONG, "Local disk that lookup files may take"),
            ("lookup.cache-spill-compression", TEXT, "zstd", "Codec of lookup files"),
            ("lookup.cache-max-memory-size", MEMORY, 256 << 20, "Memory of the lookup cache"),
            ("lookup.cache.high-priority-pool-ratio", REAL, 0.25, "Share of the lookup cache for indexes and filters"),
            ("lookup.cache.bloom.filter.enabled", BOOL, True, "Gives lookup files a bloom filter"),
            ("lookup.cache.bloom.filter.fpp", REAL, 0.05, "False positives of that filter"),
            ("lookup.remote-file.enabled", BOOL, False, "Keeps lookup files beside data files"),
            ("lookup.remote-file.level-threshold", INT, -(2**31), "Level from which lookup files are kept"),
            ("lookup.merge-buffer-size", MEMORY, 8 << 20, "Memory in which versions of one key are merged"),
            ("lookup.merge-records-threshold", INT, 1024, "Versions of one key above which merging spills"),
        ],
        FLINK: [
            ("lookup.continuous.discovery-interval", DURATION, None, "How often a lookup join looks for new snapshots"),
            ("lookup.blob-as-descriptor", BOOL, False, "Gives a lookup join descriptors in place of blobs"),
        ],
    }
)
