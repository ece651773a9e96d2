"""What a table is: its keys, its buckets, its place and its columns."""

from __future__ import annotations

from morrow.engine.options.declarations import (
    AUDIT,
    BOOL,
    DURATION,
    INT,
    LONG,
    MEMORY,
    NAMES,
    NO_CHAIN_STREAMS,
    OTHER_ROWS,
    OTHER_TABLE,
    TEXT,
    TUNING,
    Stage,
    declare_all_idle,
    declare_honoured,
    declare_idle,
    declare_refused,
    make_choice,
    refuse_unless,
)

PRIMARY_KEY = declare_honoured(
    "primary-key", NAMES, (), "Names the columns of the primary key when a table is created", immutable=True
)
PARTITION = declare_honoured(
    "partition", NAMES, (), "Names the partition columns when a table is created", immutable=True
)
PRIMARY_KEY_NULLABLE = declare_refused(
    refuse_unless("Morrow does not merge keys that are null", ("false",), Stage.READING, Stage.WRITING),
    "primary-key.nullable",
    BOOL,
    False,
    "Lets columns of the primary key be null",
    immutable=True,
    rows=True,
)
TYPE = declare_refused(
    refuse_unless(OTHER_TABLE, ("table", "materialized-table"), Stage.READING, Stage.WRITING),
    "type",
    make_choice("table", "format-table", "materialized-table", "object-table", "lance-table", "iceberg-table"),
    "table",
    "Says whose table it is",
    immutable=True,
    rows=True,
)
PATH = declare_refused(
    refuse_unless("a table of a catalog lies in the folder of its name, and `open` takes a path", (), Stage.WRITING),
    "path",
    TEXT,
    None,
    "Places the table in a folder",
)
BRANCH = declare_refused(
    refuse_unless("open the branch instead, with Table.on_branch", ("main",), Stage.WRITING),
    "branch",
    TEXT,
    "main",
    "Names the branch that is read and written",
)
OWNER = declare_idle(AUDIT, "owner", TEXT, None, "Owner of the table")
CREATED_AT = declare_idle(AUDIT, "createdAt", LONG, None, "When the table was created, in milliseconds since 1970")
CREATED_BY = declare_idle(AUDIT, "createdBy", TEXT, None, "Who created the table")
UPDATED_AT = declare_idle(AUDIT, "updatedAt", LONG, None, "When the table was changed, in milliseconds since 1970")
UPDATED_BY = declare_idle(AUDIT, "updatedBy", TEXT, None, "Who changed the table")
AUTO_CREATE = declare_refused(
    refuse_unless("make the table with create_table", ("false",), Stage.WRITING),
    "auto-create",
    BOOL,
    False,
    "Creates the folder of a table that is not there",
)
BUCKET = declare_honoured(
    "bucket", INT, -1, "Number of buckets; -1: one that nobody counts, or dynamic ones; -2: postponed", rows=True
)
BUCKET_KEY = declare_honoured(
    "bucket-key",
    NAMES,
    (),
    "Names the columns whose hash chooses a bucket; the primary key if not set",
    immutable=True,
    rows=True,
)
BUCKET_FUNCTION_TYPE = declare_honoured(
    "bucket-function.type",
    make_choice("default", "mod", "hive"),
    "default",
    "How a bucket is chosen",
    immutable=True,
    rows=True,
)
BUCKET_APPEND_ORDERED = declare_honoured(
    "bucket-append-ordered", BOOL, True, "Keeps rows of an append bucket in the order in which they were written"
)
DYNAMIC_BUCKET_TARGET_ROW_NUM = declare_honoured(
    "dynamic-bucket.target-row-num", LONG, 2_000_000, "Rows of a dynamic bucket before another one is opened"
)
DYNAMIC_BUCKET_INITIAL_BUCKETS = declare_honoured(
    "dynamic-bucket.initial-buckets", INT, None, "Dynamic buckets that keys are spread over at first", immutable=True
)
DYNAMIC_BUCKET_MAX_BUCKETS = declare_honoured(
    "dynamic-bucket.max-buckets", INT, -1, "Most dynamic buckets of a partition; -1: no limit"
)
CROSS_PARTITION_UPSERT_INDEX_TTL = declare_refused(
    refuse_unless("a key that the index forgot would be there twice", (), Stage.WRITING),
    "cross-partition-upsert.index-ttl",
    DURATION,
    None,
    "Forgets where keys are that were not seen for so long",
)
POSTPONE_DEFAULT_BUCKET_NUM = declare_honoured(
    "postpone.default-bucket-num", INT, 1, "Buckets of a partition that had none when postponed rows get theirs"
)
POSTPONE_BATCH_WRITE_FIXED_BUCKET = declare_honoured(
    "postpone.batch-write-fixed-bucket",
    BOOL,
    True,
    "Gives rows of a batch their buckets at once where a partition has buckets",
)
POSTPONE_BATCH_WRITE_FIXED_BUCKET_MAX_PARALLELISM = declare_honoured(
    "postpone.batch-write-fixed-bucket.max-parallelism",
    INT,
    2048,
    "Most buckets that a batch gives to a partition that had none",
)
POSTPONE_TARGET_ROW_NUM_PER_BUCKET = declare_honoured(
    "postpone.target-row-num-per-bucket",
    LONG,
    None,
    "Rows of a bucket when postponed rows get theirs",
)
POSTPONE_TARGET_SIZE_PER_BUCKET = declare_honoured(
    "postpone.target-size-per-bucket",
    MEMORY,
    1 << 30,
    "Size of a bucket when postponed rows get theirs",
)
POSTPONE_MERGE_ON_READ = declare_honoured(
    "postpone.merge-on-read",
    BOOL,
    False,
    "Reads merge postponed rows, too, and batch writes postpone rows",
)
PARTITION_DEFAULT_NAME = declare_honoured(
    "partition.default-name",
    TEXT,
    "__DEFAULT_PARTITION__",
    "Stands for null and empty text in the names of partition folders",
    immutable=True,
    rows=True,
)
PARTITION_LEGACY_NAME = declare_honoured(
    "partition.legacy-name",
    BOOL,
    True,
    "Names folders by the plain text of values, DATE as a number of days",
    immutable=True,
    rows=True,
)
ADD_COLUMN_BEFORE_PARTITION = declare_honoured(
    "add-column-before-partition", BOOL, False, "Puts new columns before trailing partition columns"
)
ALTER_COLUMN_NULL_TO_NOT_NULL_DISABLED = declare_honoured(
    "alter-column-null-to-not-null.disabled", BOOL, True, "Refuses to make a nullable column NOT NULL"
)
DISABLE_EXPLICIT_TYPE_CASTING = declare_honoured(
    "disable-explicit-type-casting", BOOL, False, "Refuses changes of a column's type that may lose values"
)
DATA_FILE_PATH_DIRECTORY = declare_honoured(
    "data-file.path-directory", TEXT, None, "Folder inside of the table for its data files", immutable=True, rows=True
)
DATA_FILE_EXTERNAL_PATHS = declare_honoured(
    "data-file.external-paths", NAMES, (), "Folders outside of the table that may hold its data files", rows=True
)
DATA_FILE_EXTERNAL_PATHS_STRATEGY = declare_honoured(
    "data-file.external-paths.strategy",
    make_choice("none", "specific-fs", "round-robin", "entropy-inject", "weight-robin"),
    "none",
    "Chooses the outside folder of a new file",
)
DATA_FILE_EXTERNAL_PATHS_SPECIFIC_FS = declare_honoured(
    "data-file.external-paths.specific-fs",
    TEXT,
    None,
    "File system whose outside folder takes new files",
)
DATA_FILE_EXTERNAL_PATHS_WEIGHTS = declare_honoured(
    "data-file.external-paths.weights",
    NAMES,
    (),
    "Weights of the outside folders",
)
INDEX_FILE_IN_DATA_FILE_DIR = declare_honoured(
    "index-file-in-data-file-dir", BOOL, False, "Puts index files beside data files", immutable=True, rows=True
)
QUERY_AUTH_ENABLED = declare_refused(
    refuse_unless(OTHER_ROWS, ("false",), Stage.READING, Stage.WRITING),
    "query-auth.enabled",
    BOOL,
    False,
    "Asks a REST catalog which rows and columns a user may read",
    rows=True,
)
UPSERT_KEY = declare_refused(
    refuse_unless("give the table a primary key, or call merge", (), Stage.WRITING),
    "upsert-key",
    TEXT,
    None,
    "Names the columns that stand for a primary key in a table that has none",
)
ROW_TRACKING_ENABLED = declare_honoured(
    "row-tracking.enabled",
    BOOL,
    False,
    "Gives each row an id",
    immutable=True,
    rows=True,
)
ROW_TRACKING_PARTITION_GROUP_ON_COMMIT = declare_honoured(
    "row-tracking.partition-group-on-commit",
    BOOL,
    True,
    "Numbers the rows of a partition without gaps",
)
DATA_EVOLUTION_ENABLED = declare_honoured(
    "data-evolution.enabled",
    BOOL,
    False,
    "Lets files hold other columns of the same rows",
    immutable=True,
    rows=True,
)
CHAIN_TABLE_ENABLED = declare_honoured(
    "chain-table.enabled", BOOL, False, "Reads a table as a chain of branches", rows=True
)
CHAIN_TABLE_CHAIN_PARTITION_KEYS = declare_honoured(
    "chain-table.chain-partition-keys", NAMES, (), "Partition columns that order a chain", rows=True
)
SCAN_FALLBACK_SNAPSHOT_BRANCH = declare_honoured(
    "scan.fallback-snapshot-branch", TEXT, None, "Branch of a chain that holds whole partitions", rows=True
)
SCAN_FALLBACK_DELTA_BRANCH = declare_honoured(
    "scan.fallback-delta-branch", TEXT, None, "Branch of a chain that holds changes", rows=True
)

IDLE = declare_all_idle(
    {
        TUNING: [
            ("dynamic-bucket.assigner-parallelism", INT, None, "Tasks that assign dynamic buckets"),
            ("cross-partition-upsert.bootstrap-parallelism", INT, 10, "Tasks that load the keys of all partitions"),
            ("chain-table.split.key-range-enabled", BOOL, True, "Splits the reads of a chain by keys"),
        ],
        "partitions keep their number of buckets until Table.rescale": [
            (
                "postpone.batch-write-fixed-bucket.rescale-load-factor",
                INT,
                32,
                "Ratio of buckets above which more are made",
            )
        ],
        NO_CHAIN_STREAMS: [
            ("chain-table.streaming.merge-snapshot", BOOL, False, "Merges the branches of a chain when a stream begins")
        ],
    }
)
