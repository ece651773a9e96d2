"""Format tables, materialized tables, metastores and partitions that are done: what other catalogs and engines keep."""

from __future__ import annotations

from datetime import timedelta

from morrow.engine.options.declaring import ENGINES, FLINK, METASTORE, beside, honoured, idle
from morrow.engine.options.kinds import BOOL, DURATION, INT, TEXT, words

FORMAT_TABLE_IMPLEMENTATION = idle(
    beside("type"), "format-table.implementation", words("paimon", "engine"), "paimon", "Who reads a format table"
)
FORMAT_TABLE_PARTITION_PATH_ONLY_VALUE = idle(
    beside("type"),
    "format-table.partition-path-only-value",
    BOOL,
    False,
    "Names folders of a format table by values only",
)
FORMAT_TABLE_FILE_COMPRESSION = idle(
    beside("type"), "format-table.file.compression", TEXT, None, "Codec of a format table"
)
FORMAT_TABLE_COMMIT_HIVE_SYNC_URL = idle(
    beside("type"), "format-table.commit-hive-sync-url", TEXT, None, "Hive metastore that hears of partitions"
)
FORMAT_TABLE_SCAN_LIST_PARALLELISM = idle(
    beside("type"), "format-table.scan.list-parallelism", INT, 64, "Threads that list a format table"
)
MATERIALIZED_TABLE_DEFINITION_QUERY = idle(
    ENGINES, "materialized-table.definition-query", TEXT, None, "Query of a materialized table"
)
MATERIALIZED_TABLE_INTERVAL_FRESHNESS = idle(
    ENGINES, "materialized-table.interval-freshness", TEXT, None, "How fresh a materialized table is"
)
MATERIALIZED_TABLE_INTERVAL_FRESHNESS_TIME_UNIT = idle(
    ENGINES,
    "materialized-table.interval-freshness.time-unit",
    words("second", "minute", "hour", "day"),
    None,
    "Unit of that",
)
MATERIALIZED_TABLE_LOGICAL_REFRESH_MODE = idle(
    ENGINES,
    "materialized-table.logical-refresh-mode",
    words("continuous", "full", "automatic"),
    None,
    "How a materialized table should be refreshed",
)
MATERIALIZED_TABLE_REFRESH_MODE = idle(
    ENGINES,
    "materialized-table.refresh-mode",
    words("continuous", "full", "automatic"),
    None,
    "How a materialized table is refreshed",
)
MATERIALIZED_TABLE_REFRESH_STATUS = idle(
    ENGINES,
    "materialized-table.refresh-status",
    words("initializing", "activated", "suspended"),
    None,
    "State of that refresh",
)
MATERIALIZED_TABLE_REFRESH_HANDLER_DESCRIPTION = idle(
    ENGINES, "materialized-table.refresh-handler-description", TEXT, None, "Says who refreshes a materialized table"
)
MATERIALIZED_TABLE_REFRESH_HANDLER_BYTES = idle(
    ENGINES, "materialized-table.refresh-handler-bytes", TEXT, None, "Serialised form of who does"
)
METASTORE_PARTITIONED_TABLE = honoured(
    "metastore.partitioned-table", BOOL, False, "Registers partitions in Hive's metastore, where that is the catalog"
)
METASTORE_TAG_TO_PARTITION = idle(
    METASTORE, "metastore.tag-to-partition", TEXT, None, "Shows tags as partitions in the metastore"
)
METASTORE_TAG_TO_PARTITION_PREVIEW = idle(
    METASTORE,
    "metastore.tag-to-partition.preview",
    words("none", "process-time", "watermark", "batch"),
    "none",
    "Shows a tag that is yet to be made",
)
PARTITION_END_INPUT_TO_DONE = idle(
    "it is for Paimon's own connectors of Flink and Spark; `Table.mark_partition_done` does it",
    "partition.end-input-to-done",
    BOOL,
    False,
    "Marks partitions as done at the end of input, or after a batch of Spark",
)
PARTITION_MARK_DONE_ACTION = honoured(
    "partition.mark-done-action", TEXT, "success-file", "What marks a partition as done; only success files"
)
PARTITION_MARK_DONE_ACTION_CUSTOM_CLASS = idle(
    FLINK, "partition.mark-done-action.custom.class", TEXT, None, "Java class that marks a partition as done"
)
PARTITION_MARK_DONE_ACTION_HTTP_URL = idle(
    FLINK, "partition.mark-done-action.http.url", TEXT, None, "Address that hears of partitions that are done"
)
PARTITION_MARK_DONE_ACTION_HTTP_PARAMS = idle(
    FLINK, "partition.mark-done-action.http.params", TEXT, None, "What it is told"
)
PARTITION_IDLE_TIME_TO_REPORT_STATISTIC = idle(
    FLINK,
    "partition.idle-time-to-report-statistic",
    DURATION,
    timedelta(),
    "How long a partition rests before its statistics are reported",
)
PARTITION_SINK_STRATEGY = idle(
    FLINK, "partition.sink-strategy", words("none", "hash"), "none", "How rows are shuffled before they are written"
)
