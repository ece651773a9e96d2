"""Data files and file formats: names, sizes, codecs, statistics, and ORC, Parquet, Avro, CSV, JSON, text."""

from __future__ import annotations

from morrow.engine.options.declarations import (
    BOOL,
    INT,
    LEVELS,
    LONG,
    MAX_LONG,
    MEMORY,
    NO_LEVELS,
    PREFIX,
    REAL,
    TEXT,
    TUNING,
    WORD,
    Stage,
    declare_all_idle,
    declare_honoured,
    declare_idle,
    declare_refused,
    make_choice,
    refuse_unless,
)

FILE_FORMAT = declare_honoured("file.format", WORD, "parquet", "Format of data files", rows=True)
FILE_FORMAT_PER_LEVEL = declare_honoured(
    "file.format.per.level", LEVELS, NO_LEVELS, "Format of data files by level of the merge tree"
)
FILE_COMPRESSION = declare_honoured("file.compression", WORD, "zstd", "Codec of data files")
FILE_COMPRESSION_PER_LEVEL = declare_honoured(
    "file.compression.per.level", LEVELS, NO_LEVELS, "Codec of data files by level of the merge tree"
)
FILE_COMPRESSION_ZSTD_LEVEL = declare_honoured("file.compression.zstd-level", INT, 1, "Level of the codec zstd")
FILE_BLOCK_SIZE = declare_honoured(
    "file.block-size", MEMORY, None, "Size of a row group of Parquet, a stripe of ORC, or a block of row files"
)
FILE_SUFFIX_INCLUDE_COMPRESSION = declare_honoured(
    "file.suffix.include.compression", BOOL, False, "Names the codec in the names of data files"
)
TARGET_FILE_SIZE = declare_honoured(
    "target-file-size",
    MEMORY,
    None,
    "Size at which a data file is closed; 128 MB with a primary key, 256 MB without one",
)
TARGET_FILE_ROW_NUM = declare_refused(
    refuse_unless("Morrow closes data files by 'target-file-size'", (), Stage.WRITING),
    "target-file-row-num",
    LONG,
    None,
    "Rows at which a data file is closed",
)
DATA_FILE_PREFIX = declare_honoured("data-file.prefix", PREFIX, "data-", "Begins the names of data files")
DATA_FILE_THIN_MODE = declare_honoured(
    "data-file.thin-mode", BOOL, False, "Leaves the key columns out of data files that have them as values", rows=True
)
CHANGELOG_FILE_PREFIX = declare_honoured(
    "changelog-file.prefix", PREFIX, "changelog-", "Begins the names of changelog files"
)
CHANGELOG_FILE_FORMAT = declare_honoured(
    "changelog-file.format", WORD, None, "Format of changelog files; that of data files if not set"
)
CHANGELOG_FILE_COMPRESSION = declare_honoured(
    "changelog-file.compression", WORD, None, "Codec of changelog files; that of data files if not set"
)
CHANGELOG_FILE_STATS_MODE = declare_honoured(
    "changelog-file.stats-mode", TEXT, None, "Statistics of changelog files; those of data files if not set"
)
METADATA_STATS_MODE = declare_honoured(
    "metadata.stats-mode", WORD, "truncate(16)", "Statistics of columns: none, counts, full or truncate(n)"
)
METADATA_STATS_MODE_PER_LEVEL = declare_honoured(
    "metadata.stats-mode.per.level", LEVELS, NO_LEVELS, "Statistics of columns by level of the merge tree"
)
METADATA_STATS_DENSE_STORE = declare_honoured(
    "metadata.stats-dense-store", BOOL, True, "Stores statistics of the columns that have them only"
)
METADATA_STATS_KEEP_FIRST_N_COLUMNS = declare_honoured(
    "metadata.stats-keep-first-n-columns", INT, -1, "Columns from the first that have statistics; -1: all"
)
FILE_INDEX_IN_MANIFEST_THRESHOLD = declare_honoured(
    "file-index.in-manifest-threshold", MEMORY, 500, "Size up to which a file's index stands in the manifest"
)
FILE_INDEX_READ_ENABLED = declare_honoured(
    "file-index.read.enabled", BOOL, True, "Leaves files out of reads by their indexes", rows=True
)
WRITE_BUFFER_SIZE = declare_honoured(
    "write-buffer-size", MEMORY, 256 << 20, "Memory of a writer's buffers before it spills"
)
WRITE_BUFFER_SPILLABLE = declare_honoured("write-buffer-spillable", BOOL, True, "Spills full buffers to local disk")
WRITE_BATCH_SIZE = declare_idle(
    TUNING, "write.batch-size", INT, 1024, "Rows that a format writer takes at a time", former=("orc.write.batch-size",)
)
FILE_OPERATION_THREAD_NUM = declare_idle(
    TUNING,
    "file-operation.thread-num",
    INT,
    None,
    "Threads that list and delete files",
    former=("delete-file.thread-num",),
)

ORC_COMPRESS = declare_honoured("orc.compress", WORD, None, "Codec of ORC files; `file.compression` if not set")
ORC_STRIPE_SIZE = declare_honoured(
    "orc.stripe.size", MEMORY, None, "Size of a stripe, where `file.block-size` is not set"
)
ORC_DICTIONARY_KEY_THRESHOLD = declare_honoured(
    "orc.dictionary.key.threshold", REAL, 0.8, "Share of distinct values up to which a column has a dictionary"
)
ORC_TIMESTAMP_LTZ_LEGACY_TYPE = declare_honoured(
    "orc.timestamp-ltz.legacy.type",
    BOOL,
    True,
    "Stores TIMESTAMP_LTZ as Paimon always did",
    rows=True,
)
MORROW_ORC_WRITER_TIME_ZONE = declare_honoured(
    "morrow.orc.writer-time-zone",
    TEXT,
    "UTC",
    "Writer's time zone of ORC files that name none, Morrow's own option",
)
ENCRYPTED = refuse_unless("Morrow neither encrypts nor decrypts columns", (), Stage.READING, Stage.WRITING)
ORC_ENCRYPT = declare_refused(ENCRYPTED, "orc.encrypt", TEXT, None, "Columns that are encrypted, by the names of keys")
ORC_MASK = declare_refused(ENCRYPTED, "orc.mask", TEXT, None, "What readers without a key see in encrypted columns")
PARQUET_CRYPTO_FACTORY_CLASS = declare_refused(
    ENCRYPTED, "parquet.crypto.factory.class", TEXT, None, "Java class that decides what Parquet files encrypt"
)
PARQUET_COMPRESSION = declare_honoured(
    "parquet.compression", WORD, None, "Codec of Parquet files; `file.compression` if not set"
)
PARQUET_COMPRESSION_CODEC_ZSTD_LEVEL = declare_honoured(
    "parquet.compression.codec.zstd.level",
    INT,
    None,
    "Level of the codec zstd; `file.compression.zstd-level` if not set",
)
PARQUET_ENABLE_DICTIONARY = declare_honoured("parquet.enable.dictionary", BOOL, True, "Gives columns dictionaries")
PARQUET_WRITER_VERSION = declare_honoured(
    "parquet.writer.version",
    make_choice("v1", "v2", "parquet_1_0", "parquet_2_0"),
    None,
    "`v1`: without encodings that Java Paimon reads from 1.0.1 on",
)
PARQUET_PAGE_SIZE = declare_honoured("parquet.page.size", MEMORY, None, "Size of a page")
PARQUET_BLOCK_SIZE = declare_honoured(
    "parquet.block.size", MEMORY, None, "Size of a row group, where `file.block-size` is not set"
)
AVRO_CODEC = declare_honoured("avro.codec", WORD, None, "Codec of Avro files; `file.compression` if not set")
CSV_FIELD_DELIMITER = declare_honoured(
    "csv.field-delimiter", TEXT, ",", "Stands between values", former=("field-delimiter", "seq", "delimiter")
)
CSV_LINE_DELIMITER = declare_honoured("csv.line-delimiter", TEXT, "\n", "Stands between rows", former=("lineSep",))
CSV_QUOTE_CHARACTER = declare_honoured("csv.quote-character", TEXT, '"', "Stands around values", former=("quote",))
CSV_ESCAPE_CHARACTER = declare_honoured(
    "csv.escape-character", TEXT, "\\", "Stands before a quote that belongs to a value", former=("escape",)
)
CSV_INCLUDE_HEADER = declare_honoured(
    "csv.include-header", BOOL, False, "Begins files with the names of columns", former=("header",)
)
CSV_NULL_LITERAL = declare_honoured("csv.null-literal", TEXT, "", "Stands for null", former=("nullvalue",))
CSV_MODE = declare_refused(
    refuse_unless("Morrow reads files that are whole; `scan` raises Unsupported for others", ("permissive",)),
    "csv.mode",
    make_choice("permissive", "dropmalformed", "failfast"),
    "permissive",
    "What a row does that does not parse",
    former=("mode",),
)
JSON_IGNORE_PARSE_ERRORS = declare_refused(
    refuse_unless("Morrow reads files that are whole; `scan` raises Unsupported for others", ("false",)),
    "json.ignore-parse-errors",
    BOOL,
    False,
    "Takes what does not parse for null",
)
JSON_LINE_DELIMITER = declare_honoured("json.line-delimiter", TEXT, "\n", "Stands between rows")
TEXT_LINE_DELIMITER = declare_honoured("text.line-delimiter", TEXT, "\n", "Stands between rows", former=("lineSep",))

IDLE = declare_all_idle(
    {
        TUNING: [
            ("async-file-write", BOOL, True, "Writes files in a thread of their own"),
            ("write-buffer-spill.max-disk-size", MEMORY, MAX_LONG, "Local disk that spilled buffers may take"),
            ("write-buffer-for-append", BOOL, False, "Buffers rows of append tables too"),
            ("write-max-writers-to-spill", INT, 10, "Open writers above which append writers spill"),
            ("write.batch-memory", MEMORY, 128 << 20, "Memory of the rows that a format writer takes at a time"),
            ("read.batch-size", INT, 1024, "Rows that a format reader gives at a time"),
            ("file-reader-async-threshold", MEMORY, 10 << 20, "Size from which files are read in threads of their own"),
            ("local-sort.max-num-file-handles", INT, 128, "Spilled files that a sort merges at once"),
            ("page-size", MEMORY, 64 << 10, "Size of a page of memory"),
            ("cache-page-size", MEMORY, 64 << 10, "Size of a page of the lookup cache"),
            ("sort-engine", make_choice("min-heap", "loser-tree"), "loser-tree", "Algorithm that merges sorted runs"),
            ("sort-spill-threshold", INT, None, "Sorted runs above which readers spill"),
            ("sort-spill-buffer-size", MEMORY, 64 << 20, "Memory of a sort before it spills"),
            ("spill-compression", TEXT, "zstd", "Codec of spilled rows"),
            ("spill-compression.zstd-level", INT, 1, "Level of the codec zstd for spilled rows"),
            ("local-kv-db.block-size", MEMORY, 4 << 10, "Size of a block of the local key-value store"),
            ("orc.column.encoding.direct", INT, None, "Columns without a dictionary"),
        ],
        "Morrow does not write JSON files": [
            ("json.map-null-key-mode", TEXT, None, "What a null key of a map does"),
            ("json.map-null-key-literal", TEXT, "null", "Stands for a null key of a map"),
        ],
    }
)
