"""Features beyond plain rows: blobs, row ids, variants, vectors, global indexes, and metadata for Iceberg."""

from __future__ import annotations

from collections.abc import Mapping

from morrow.engine.options.declarations import (
    BOOL,
    ENGINES,
    INT,
    LONG,
    MEMORY,
    NAMES,
    NOT_WRITTEN,
    ONE_BUILDER,
    ONE_INFERENCE,
    READS_ALL_ROWS,
    REAL,
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

ICEBERG_CATALOG = "it is for an Iceberg catalog, and Morrow registers tables in none"

BLOB_FIELD = declare_honoured(
    "blob-field", NAMES, (), "Makes BYTES columns BLOBs when a table is created", immutable=True
)
BLOB_AS_DESCRIPTOR = declare_honoured(
    "blob-as-descriptor", BOOL, False, "Gives descriptors of blobs instead of their bytes"
)
BLOB_DESCRIPTOR_FIELD = declare_honoured(
    "blob-descriptor-field",
    NAMES,
    (),
    "Columns that hold descriptors of blobs",
    former=("blob.stored-descriptor-fields",),
    immutable=True,
)
BLOB_VIEW_FIELD = declare_honoured(
    "blob-view-field", NAMES, (), "Columns that hold references to blobs of other tables", immutable=True
)
BLOB_EXTERNAL_STORAGE_FIELD = declare_refused(
    refuse_unless(NOT_WRITTEN, (), Stage.WRITING),
    "blob-external-storage-field",
    TEXT,
    None,
    "Columns whose blobs are copied outside of the table",
    immutable=True,
)
BLOB_EXTERNAL_STORAGE_PATH = declare_refused(
    refuse_unless(NOT_WRITTEN, (), Stage.WRITING),
    "blob-external-storage-path",
    TEXT,
    None,
    "Folder of those blobs",
    immutable=True,
)
BLOB_VIEW_RESOLVE_ENABLED = declare_honoured(
    "blob-view.resolve.enabled", BOOL, True, "Reads the blobs that references name"
)
BLOB_TARGET_FILE_SIZE = declare_honoured(
    "blob.target-file-size", MEMORY, None, "Size at which a blob file is closed; by default `target-file-size`"
)
BLOB_COMPACTION_ENABLED = declare_honoured("blob-compaction.enabled", BOOL, False, "Compacts blob files")
BLOB_WRITE_NULL_ON_MISSING_FILE = declare_honoured(
    "blob-write-null-on-missing-file", BOOL, False, "Writes null if a blob is missing"
)
BLOB_WRITE_NULL_ON_FETCH_FAILURE = declare_honoured(
    "blob-write-null-on-fetch-failure", BOOL, False, "Writes null if a blob cannot be read"
)
DATA_EVOLUTION_REASSIGN_SKIP_CONTIGUOUS_ROW_COUNT = declare_honoured(
    "data-evolution.reassign.skip-contiguous-row-count",
    LONG,
    1_000_000_000,
    "Rows in a row that keep their ids",
)
DATA_EVOLUTION_ROW_SIDECAR_ENABLED = declare_refused(
    refuse_unless(NOT_WRITTEN, ("false",), Stage.WRITING),
    "data-evolution.row-sidecar.enabled",
    BOOL,
    False,
    "Writes rows beside columns",
)
DATA_EVOLUTION_MERGE_INTO_FILE_PRUNING = declare_idle(
    "Morrow prunes files always",
    "data-evolution.merge-into.file-pruning",
    BOOL,
    True,
    "Leaves files out of MERGE INTO",
)
DATA_EVOLUTION_MERGE_INTO_SOURCE_PERSIST = declare_idle(
    "Morrow reads the source of a merge once",
    "data-evolution.merge-into.source-persist",
    BOOL,
    False,
    "Keeps the source of MERGE INTO",
)
VARIANT_SHREDDING_SCHEMA = declare_honoured(
    "variant.shreddingSchema",
    TEXT,
    None,
    "Columns into which variants are shredded",
    former=("parquet.variant.shreddingSchema",),
)
VARIANT_INFER_SHREDDING_SCHEMA = declare_honoured(
    "variant.inferShreddingSchema",
    BOOL,
    False,
    "Finds out into which columns variants are shredded",
)
VARIANT_SHREDDING_MAX_SCHEMA_WIDTH = declare_honoured(
    "variant.shredding.maxSchemaWidth",
    INT,
    300,
    "Most columns of a shredded variant",
)
VARIANT_SHREDDING_MAX_SCHEMA_DEPTH = declare_honoured(
    "variant.shredding.maxSchemaDepth",
    INT,
    50,
    "Deepest column of a shredded variant",
)
VARIANT_SHREDDING_MIN_FIELD_CARDINALITY_RATIO = declare_honoured(
    "variant.shredding.minFieldCardinalityRatio",
    REAL,
    0.1,
    "Share of rows that must have a member",
)
VARIANT_SHREDDING_MAX_INFER_BUFFER_ROW = declare_honoured(
    "variant.shredding.maxInferBufferRow",
    INT,
    4096,
    "Rows that are looked at",
)
VECTOR_FIELD = declare_honoured(
    "vector-field",
    NAMES,
    (),
    "VECTOR columns: arrays with a length in `field.<name>.vector-dim`, or with the comment `__VECTOR_FIELD`",
)
VECTOR_FILE_FORMAT = declare_honoured(
    "vector.file.format", TEXT, None, "Format of files that hold the vectors of tables with data evolution alone"
)
VECTOR_TARGET_FILE_SIZE = declare_honoured(
    "vector.target-file-size",
    MEMORY,
    None,
    "Size at which a file of vectors is closed",
)
GLOBAL_INDEX_ENABLED = declare_honoured(
    "global-index.enabled", BOOL, True, "Reads only the rows that match according to global indexes"
)
SORTED_INDEX_RECORDS_PER_RANGE = declare_honoured(
    "sorted-index.records-per-range",
    LONG,
    10_000_000,
    "Rows of a file of a btree or bitmap index",
    former=("btree-index.records-per-range",),
)
BTREE_INDEX_BLOCK_SIZE = declare_honoured(
    "btree-index.block-size", MEMORY, 64 << 10, "Size of a block of a btree index"
)
BTREE_INDEX_COMPRESSION = declare_honoured(
    "btree-index.compression", TEXT, "none", "Compression of btree indexes; Morrow builds none but uncompressed ones"
)
BITMAP_INDEX_DICTIONARY_BLOCK_SIZE = declare_honoured(
    "bitmap-index.dictionary-block-size", MEMORY, 16 << 10, "Size of a block of keys of a bitmap index"
)
BITMAP_INDEX_COMPRESSION = declare_honoured(
    "bitmap-index.compression", TEXT, "none", "Compression of bitmap indexes; Morrow builds none but uncompressed ones"
)
FAST = "fast"
"""The search mode that leaves out rows without an index."""
SEARCH_MODE = make_choice(FAST, "full", "detail")
GLOBAL_INDEX_SEARCH_MODE = declare_idle(
    READS_ALL_ROWS, "global-index.search-mode", SEARCH_MODE, None, "How global indexes are searched"
)
VECTOR_INDEX_SEARCH_MODE = declare_idle(
    READS_ALL_ROWS, "vector-index.search-mode", SEARCH_MODE, FAST, "How vector indexes are searched"
)
GLOBAL_INDEX_ROW_COUNT_PER_SHARD = declare_honoured(
    "global-index.row-count-per-shard", LONG, 100_000, "Rows of a file of an index of vectors or texts"
)
GLOBAL_INDEX_EXTERNAL_PATH = declare_idle(
    "Morrow stores indexes beside the rows", "global-index.external-path", TEXT, None, "Folder of global indexes"
)
GLOBAL_INDEX_COLUMN_UPDATE_ACTION = declare_honoured(
    "global-index.column-update-action",
    make_choice("throw_error", "drop_partition_index", "ignore"),
    "throw_error",
    "What happens to a global index when its column is updated",
)

DISKANN_OPTIONS = (
    *("build-preset", "max-degree", "build-search-list-size", "alpha", "seed", "memory-budget-bytes"),
    *("storage-layout", "raw-vector-encoding", "build-distance"),
)
VECTOR_INDEX_OPTIONS: Mapping[str, str] = {
    **dict.fromkeys(("dimension", "index.dimension"), "dimension"),
    **dict.fromkeys(("distance.metric", "metric"), "metric"),
    **dict.fromkeys(("pq.use-opq", "use-opq"), "use-opq"),
    **{
        name: name
        for name in (
            *("train.sample-ratio", "nlist", "expected-vector-count", "pq.m", "pq.code-ratio", "pq.bits", "rq.bits"),
            *("target-recall", "max-bytes-per-vector", "deployment-profile", "ivf.coarse-assignment"),
            *("ivf.pq-encoding", "ivf.train.max-points-per-centroid", "pq.train.max-points-per-centroid"),
        )
    },
    **{f"{prefix}{name}": f"diskann.{name}" for name in DISKANN_OPTIONS for prefix in ("", "diskann.")},
}
"""Options of indexes of vectors -> their names in paimon-vindex. Keys are ``<type>.<option>``, and
``fields.<column>.<option>``, which wins."""
TEXT_INDEX_OPTIONS = (
    *("tokenizer", "ngram.min-gram", "ngram.max-gram", "ngram.prefix-only", "jieba.search-mode"),
    *("jieba.ordinal-position", "lower-case", "max-token-length", "ascii-folding", "stem", "language"),
    *("remove-stop-words", "stop-words", "with-position", "searcher-pool.max-size"),
)
"""Options of indexes of texts. Their keys are ``full-text.<option>``."""

METADATA_ICEBERG_STORAGE = declare_honoured(
    "metadata.iceberg.storage",
    make_choice("disabled", "table-location", "hadoop-catalog", "hive-catalog", "rest-catalog"),
    "disabled",
    "Keeps Iceberg metadata beside Paimon's, and where",
    refusal=refuse_unless(
        "Morrow registers tables in no Iceberg catalog",
        ("disabled", "table-location", "hadoop-catalog"),
        Stage.WRITING,
    ),
)
METADATA_ICEBERG_STORAGE_LOCATION = declare_honoured(
    "metadata.iceberg.storage-location",
    make_choice("table-location", "catalog-location"),
    None,
    "Folder of Iceberg metadata: the table's, or one beside the databases",
)
METADATA_ICEBERG_FORMAT_VERSION = declare_honoured(
    "metadata.iceberg.format-version",
    INT,
    2,
    "Version of Iceberg's format, 2 or 3",
)
METADATA_ICEBERG_COMPACTION_MIN_FILE_NUM = declare_honoured(
    "metadata.iceberg.compaction.min.file-num",
    INT,
    10,
    "Least Iceberg manifests that are merged",
)
METADATA_ICEBERG_COMPACTION_MAX_FILE_NUM = declare_honoured(
    "metadata.iceberg.compaction.max.file-num",
    INT,
    50,
    "Small Iceberg manifests above which they are merged, whatever their size",
)
METADATA_ICEBERG_DELETE_AFTER_COMMIT_ENABLED = declare_honoured(
    "metadata.iceberg.delete-after-commit.enabled",
    BOOL,
    True,
    "Removes old versions of the Iceberg metadata",
)
METADATA_ICEBERG_PREVIOUS_VERSIONS_MAX = declare_honoured(
    "metadata.iceberg.previous-versions-max",
    INT,
    0,
    "Old versions of the Iceberg metadata that stay",
)
METADATA_ICEBERG_MANIFEST_COMPRESSION = declare_honoured(
    "metadata.iceberg.manifest-compression",
    TEXT,
    "snappy",
    "Codec of Iceberg manifests",
)
METADATA_ICEBERG_MANIFEST_LEGACY_VERSION = declare_honoured(
    "metadata.iceberg.manifest-legacy-version",
    BOOL,
    False,
    "Writes manifests as Iceberg 1.4 did",
)

IDLE = declare_all_idle(
    {
        TUNING: [
            ("blob.split-by-file-size", BOOL, None, "Splits reads by the sizes of blob files"),
            ("blob.copy-buffer-size", MEMORY, 4 << 10, "Memory in which blobs are copied"),
            ("global-index.thread-num", INT, 32, "Threads that search a global index"),
        ],
        "Morrow runs an update again after a conflict": [
            (
                "data-evolution.row-id-conflict-rewrite.max-size",
                MEMORY,
                256 << 20,
                "Size of files to rewrite at such a conflict",
            )
        ],
        explain_dependency("data-evolution.row-sidecar.enabled"): [
            ("data-evolution.row-sidecar.max-selected-rows", LONG, 4096, "Rows up to which row sidecars are read"),
            ("data-evolution.row-sidecar.max-selection-ratio", REAL, 0.05, "The same as a share of rows"),
        ],
        "Morrow does not give new row ids": [
            ("data-evolution.compaction.rewrite-row-ids", BOOL, False, "Gives compacted rows new ids")
        ],
        ONE_INFERENCE: [
            (
                "variant.shredding.inferenceMode",
                make_choice("per-file", "adaptive"),
                "per-file",
                "When it infers the columns of shredded variants",
            ),
            ("variant.shredding.adaptive.maxInferBufferRow", INT, 256, "Rows that are looked at for later files"),
            ("variant.shredding.adaptive.retentionRatio", REAL, 0.05, "Share of rows that keep a column"),
        ],
        ENGINES: [
            ("vector-search.distribute.enabled", BOOL, False, "Searches vectors in several tasks"),
            ("vector-search.lateral-join.batch-size", INT, 256, "Rows of a join that searches vectors"),
            ("global-index.build.max-shard", INT, 32, "Most shards of a global index"),
        ],
        READS_ALL_ROWS: [
            ("scalar-index.search-mode", SEARCH_MODE, FAST, "How scalar indexes are searched"),
            ("full-text-index.search-mode", SEARCH_MODE, FAST, "How full-text indexes are searched"),
        ],
        ONE_BUILDER: [
            ("global-index.build.parallelism", INT, 1, "Threads of pypaimon that build a global index"),
            ("global-index.build.max-parallelism", INT, 4096, "Tasks that build a global index"),
        ],
        "Morrow always reads the columns of a filter": [
            (
                "global-index.filter.refine-from-data",
                BOOL,
                False,
                "Lets searches of vectors read the columns of a filter",
            )
        ],
        ICEBERG_CATALOG: [
            ("metadata.iceberg.uri", TEXT, None, "Address of the Iceberg catalog"),
            ("metadata.iceberg.hive-conf-dir", TEXT, None, "Folder of Hive's settings"),
            ("metadata.iceberg.hadoop-conf-dir", TEXT, None, "Folder of Hadoop's settings"),
            (
                "metadata.iceberg.hive-client-class",
                TEXT,
                "org.apache.hadoop.hive.metastore.HiveMetaStoreClient",
                "Client of Hive's metastore",
            ),
            ("metadata.iceberg.database", TEXT, None, "Database in the Iceberg catalog"),
            ("metadata.iceberg.table", TEXT, None, "Table in the Iceberg catalog"),
            ("metadata.iceberg.glue.skip-archive", BOOL, False, "Leaves old versions out of AWS Glue"),
            ("metadata.iceberg.hive-skip-update-stats", BOOL, False, "Leaves statistics out of Hive"),
        ],
    }
)
