"""Data files: formats, codecs, names, sizes, statistics and indexes."""

from __future__ import annotations

from morrow.engine.options.declaring import TUNING, Stage, honoured, idle, refused, unless
from morrow.engine.options.kinds import BOOL, INT, LEVELS, LONG, MEMORY, MOST_LONG, NO_LEVELS, PREFIX, TEXT, WORD, words

FILE_FORMAT = honoured("file.format", WORD, "parquet", "Format of data files", rows=True)
FILE_FORMAT_PER_LEVEL = honoured(
    "file.format.per.level", LEVELS, NO_LEVELS, "Format of data files by level of the merge tree"
)
FILE_COMPRESSION = honoured("file.compression", WORD, "zstd", "Codec of data files")
FILE_COMPRESSION_PER_LEVEL = honoured(
    "file.compression.per.level", LEVELS, NO_LEVELS, "Codec of data files by level of the merge tree"
)
FILE_COMPRESSION_ZSTD_LEVEL = honoured("file.compression.zstd-level", INT, 1, "Level of the codec zstd")
FILE_BLOCK_SIZE = honoured("file.block-size", MEMORY, None, "Size of a row group of Parquet and of a stripe of ORC")
FILE_SUFFIX_INCLUDE_COMPRESSION = honoured(
    "file.suffix.include.compression", BOOL, False, "Names the codec in the names of data files"
)
TARGET_FILE_SIZE = honoured(
    "target-file-size",
    MEMORY,
    None,
    "Size at which a data file is closed; 128 MB with a primary key, 256 MB without one",
)
TARGET_FILE_ROW_NUM = refused(
    unless("Morrow closes data files by 'target-file-size'", (), Stage.WRITING),
    "target-file-row-num",
    LONG,
    None,
    "Rows at which a data file is closed",
)
DATA_FILE_PREFIX = honoured("data-file.prefix", PREFIX, "data-", "Begins the names of data files")
DATA_FILE_THIN_MODE = honoured(
    "data-file.thin-mode", BOOL, False, "Leaves the key columns out of data files that have them as values", rows=True
)
CHANGELOG_FILE_PREFIX = honoured("changelog-file.prefix", PREFIX, "changelog-", "Begins the names of changelog files")
CHANGELOG_FILE_FORMAT = honoured(
    "changelog-file.format", WORD, None, "Format of changelog files; that of data files if not set"
)
CHANGELOG_FILE_COMPRESSION = honoured(
    "changelog-file.compression", WORD, None, "Codec of changelog files; that of data files if not set"
)
CHANGELOG_FILE_STATS_MODE = honoured(
    "changelog-file.stats-mode", TEXT, None, "Statistics of changelog files; those of data files if not set"
)
METADATA_STATS_MODE = honoured(
    "metadata.stats-mode", WORD, "truncate(16)", "Statistics of columns: none, counts, full or truncate(n)"
)
METADATA_STATS_MODE_PER_LEVEL = honoured(
    "metadata.stats-mode.per.level", LEVELS, NO_LEVELS, "Statistics of columns by level of the merge tree"
)
METADATA_STATS_DENSE_STORE = honoured(
    "metadata.stats-dense-store", BOOL, True, "Stores statistics of the columns that have them only"
)
METADATA_STATS_KEEP_FIRST_N_COLUMNS = honoured(
    "metadata.stats-keep-first-n-columns", INT, -1, "Columns from the first that have statistics; -1: all"
)
FILE_INDEX_IN_MANIFEST_THRESHOLD = honoured(
    "file-index.in-manifest-threshold", MEMORY, 500, "Size up to which a file's index stands in the manifest"
)
FILE_INDEX_READ_ENABLED = honoured(
    "file-index.read.enabled", BOOL, True, "Leaves files out of reads by their indexes", rows=True
)
ASYNC_FILE_WRITE = idle(TUNING, "async-file-write", BOOL, True, "Writes files in a thread of their own")
WRITE_BUFFER_SIZE = honoured("write-buffer-size", MEMORY, 256 << 20, "Memory of a writer's buffers before it spills")
WRITE_BUFFER_SPILLABLE = honoured("write-buffer-spillable", BOOL, True, "Spills full buffers to local disk")
WRITE_BUFFER_SPILL_MAX_DISK_SIZE = idle(
    TUNING, "write-buffer-spill.max-disk-size", MEMORY, MOST_LONG, "Local disk that spilled buffers may take"
)
WRITE_BUFFER_FOR_APPEND = idle(TUNING, "write-buffer-for-append", BOOL, False, "Buffers rows of append tables too")
WRITE_MAX_WRITERS_TO_SPILL = idle(
    TUNING, "write-max-writers-to-spill", INT, 10, "Open writers above which append writers spill"
)
WRITE_BATCH_SIZE = idle(
    TUNING, "write.batch-size", INT, 1024, "Rows that a format writer takes at a time", former=("orc.write.batch-size",)
)
WRITE_BATCH_MEMORY = idle(
    TUNING, "write.batch-memory", MEMORY, 128 << 20, "Memory of the rows that a format writer takes at a time"
)
READ_BATCH_SIZE = idle(TUNING, "read.batch-size", INT, 1024, "Rows that a format reader gives at a time")
FILE_READER_ASYNC_THRESHOLD = idle(
    TUNING, "file-reader-async-threshold", MEMORY, 10 << 20, "Size from which files are read in threads of their own"
)
LOCAL_SORT_MAX_NUM_FILE_HANDLES = idle(
    TUNING, "local-sort.max-num-file-handles", INT, 128, "Spilled files that a sort merges at once"
)
PAGE_SIZE = idle(TUNING, "page-size", MEMORY, 64 << 10, "Size of a page of memory")
CACHE_PAGE_SIZE = idle(TUNING, "cache-page-size", MEMORY, 64 << 10, "Size of a page of the lookup cache")
SORT_ENGINE = idle(
    TUNING, "sort-engine", words("min-heap", "loser-tree"), "loser-tree", "Algorithm that merges sorted runs"
)
SORT_SPILL_THRESHOLD = idle(TUNING, "sort-spill-threshold", INT, None, "Sorted runs above which readers spill")
SORT_SPILL_BUFFER_SIZE = idle(TUNING, "sort-spill-buffer-size", MEMORY, 64 << 20, "Memory of a sort before it spills")
SPILL_COMPRESSION = idle(TUNING, "spill-compression", TEXT, "zstd", "Codec of spilled rows")
SPILL_COMPRESSION_ZSTD_LEVEL = idle(
    TUNING, "spill-compression.zstd-level", INT, 1, "Level of the codec zstd for spilled rows"
)
LOCAL_KV_DB_BLOCK_SIZE = idle(
    TUNING, "local-kv-db.block-size", MEMORY, 4 << 10, "Size of a block of the local key-value store"
)
FILE_OPERATION_THREAD_NUM = idle(
    TUNING,
    "file-operation.thread-num",
    INT,
    None,
    "Threads that list and delete files",
    former=("delete-file.thread-num",),
)
