"""Options of Paimon's connector for Spark: known, and without effect here (docs/spark.md lists those of Morrow's)."""

from __future__ import annotations

from morrow.engine.options.declaring import SPARK, idle
from morrow.engine.options.kinds import BOOL, INT, LONG

REQUIRED_SPARK_CONFS_CHECK_ENABLED = idle(
    SPARK, "requiredSparkConfsCheck.enabled", BOOL, True, "Checks the settings of the session"
)
LEGACY_TIMESTAMP_MAPPING_ENABLED = idle(
    SPARK, "legacy-timestamp-mapping.enabled", BOOL, False, "Takes TIMESTAMP for Spark's TIMESTAMP"
)
VECTOR_SEARCH_LATERAL_JOIN_PARALLELISM = idle(
    SPARK, "vector-search.lateral-join.parallelism", INT, 16, "Tasks of a join that searches vectors"
)
WRITE_MERGE_SCHEMA = idle(SPARK, "write.merge-schema", BOOL, False, "Adds the columns of written rows to the table")
WRITE_MERGE_SCHEMA_TYPE_WIDENING = idle(
    SPARK, "write.merge-schema.type-widening", BOOL, False, "Widens the types of columns for written rows"
)
WRITE_MERGE_SCHEMA_EXPLICIT_CAST = idle(
    SPARK, "write.merge-schema.explicit-cast", BOOL, False, "Changes the types of columns for written rows"
)
WRITE_USE_V2_WRITE = idle(SPARK, "write.use-v2-write", BOOL, False, "Writes by Spark's second interface")
WRITE_HIVE_STYLE_DYNAMIC_PARTITION_ENABLED = idle(
    SPARK, "write.hive-style-dynamic-partition.enabled", BOOL, False, "Expects partition columns last"
)
WRITE_DATA_EVOLUTION_UPDATE_CONFLICT_RETRY_MAX_ATTEMPTS = idle(
    SPARK, "write.data-evolution.update-conflict-retry.max-attempts", INT, 20, "How often an update is tried"
)
WRITE_DATA_EVOLUTION_UPDATE_CONFLICT_RETRY_WAIT_MS = idle(
    SPARK, "write.data-evolution.update-conflict-retry.wait-ms", LONG, 10, "Wait before an update is tried again"
)
READ_STREAM_MAX_FILES_PER_TRIGGER = idle(
    SPARK, "read.stream.maxFilesPerTrigger", INT, None, "Most files of a batch of a stream"
)
READ_STREAM_MAX_BYTES_PER_TRIGGER = idle(
    SPARK, "read.stream.maxBytesPerTrigger", LONG, None, "Most bytes of a batch of a stream"
)
READ_STREAM_MAX_ROWS_PER_TRIGGER = idle(
    SPARK, "read.stream.maxRowsPerTrigger", LONG, None, "Most rows of a batch of a stream"
)
READ_STREAM_MIN_ROWS_PER_TRIGGER = idle(
    SPARK, "read.stream.minRowsPerTrigger", LONG, None, "Fewest rows of a batch of a stream"
)
READ_STREAM_MAX_TRIGGER_DELAY_MS = idle(
    SPARK, "read.stream.maxTriggerDelayMs", LONG, None, "How long a batch of a stream waits for those"
)
READ_CHANGELOG = idle(SPARK, "read.changelog", BOOL, False, "Shows the kinds of rows")
READ_ALLOW_FULL_SCAN = idle(SPARK, "read.allow.fullScan", BOOL, True, "Allows reads without a filter on partitions")
FORMAT_TABLE_REPAIR_COLLECT_STATISTICS = idle(
    SPARK, "format-table.repair.collect-statistics", BOOL, False, "Measures the partitions of a format table"
)
FORMAT_TABLE_STATISTICS_PARALLELISM = idle(
    SPARK, "format-table.statistics.parallelism", INT, 8, "Requests that measure a format table"
)
SOURCE_SPLIT_TARGET_SIZE_WITH_COLUMN_PRUNING = idle(
    SPARK,
    "source.split.target-size-with-column-pruning",
    BOOL,
    False,
    "Counts the columns that are read in the sizes of splits",
)
