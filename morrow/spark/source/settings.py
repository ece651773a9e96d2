"""Names of the options of ``format("morrow")``, in lower case, and session settings for tables.

Settings for tables are ``spark.paimon.<option>`` and ``spark.paimon.<catalog>.<database>.<table>.<option>``.
``timestampAsOf`` is in the session's time zone unless it names a zone.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from morrow.engine.catalog.names import parse_object_name
from morrow.engine.errors import Unsupported
from morrow.engine.format.paths import DATABASE_SUFFIX
from morrow.engine.options import table_settings
from morrow.engine.options.declarations import FLINK, TUNING
from morrow.engine.options.declared import connectors as connector
from morrow.engine.options.declared import features, merging, scans, table
from morrow.engine.options.table_options import OPTIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREFIX = table_settings.PREFIXES[0]
SPARKS_CATALOG = "spark_catalog"
HARMLESS = frozenset(
    option.key
    for option in (
        connector.REQUIRED_SPARK_CONFS_CHECK_ENABLED,
        connector.WRITE_USE_V2_WRITE,
        connector.READ_ALLOW_FULL_SCAN,
        connector.SOURCE_SPLIT_TARGET_SIZE_WITH_COLUMN_PRUNING,
        connector.WRITE_DATA_EVOLUTION_UPDATE_CONFLICT_RETRY_MAX_ATTEMPTS,
        connector.WRITE_DATA_EVOLUTION_UPDATE_CONFLICT_RETRY_WAIT_MS,
        features.DATA_EVOLUTION_MERGE_INTO_FILE_PRUNING,
        features.DATA_EVOLUTION_MERGE_INTO_SOURCE_PERSIST,
        *(option for option in OPTIONS.values() if option.idle in (TUNING, FLINK)),
    )
)
"""Options of Paimon's connector, Java threads and memory, and Flink's jobs. They do not affect results."""

MEANING = (
    connector.WRITE_HIVE_STYLE_DYNAMIC_PARTITION_ENABLED.key,
    connector.LEGACY_TIMESTAMP_MAPPING_ENABLED.key,
)
"""Options of the Paimon connector that change the meaning of statements. Morrow takes only false, their default."""


def find_source_options(settings: Mapping[str, str], catalog: str, database: str, table: str) -> dict[str, str]:
    """Return the options that the settings, without their prefix, give for a table. Raises as `match_settings`."""
    return {option: settings[key] for option, key in match_settings(settings, catalog, database, table).items()}


def parse_names(path: str) -> tuple[str, str, str]:
    """Return the names that settings use for the table of a path: Spark's own catalog, and the last two folders."""
    folder, _, table = parse_object_name(path).table.rstrip("/").rpartition("/")
    return SPARKS_CATALOG, folder.rpartition("/")[2].removesuffix(DATABASE_SUFFIX), table


def refuse_settings(spark: SparkSession, what: str, catalog: str, database: str, table: str) -> None:
    """Refuse settings for a table in a session whose JVM does not apply them; errors name `what`.

    Raises `Unsupported`; others as `match_settings`.
    """
    rows = spark.sql("SET").collect()
    given = {row[0].removeprefix(PREFIX): row[1] for row in rows if row[0].startswith(PREFIX)}
    if found := match_settings(given, catalog, database, table):
        key = next(iter(found.values()))
        raise Unsupported(f"{what} under the setting {PREFIX}{key}, without a catalog in the JVM,", hint="unset it")


def match_settings(settings: Mapping[str, str], catalog: str, database: str, table: str) -> dict[str, str]:
    """Return for each option the setting, without its prefix, that sets it for a table.

    Raises as `morrow.engine.options.table_settings.match_settings`.
    """
    found = table_settings.match_settings(settings, (catalog, database, table), prefix=PREFIX)
    return {option: key for option, key in found.items() if not _is_harmless(option, settings[key])}


def _is_harmless(option: str, value: str) -> bool:
    return option in HARMLESS or (option in MEANING and value.strip().lower() == "false")


STORAGE_PREFIX = "storage."
"""The prefix of `storage_options`. Spark redacts options named secret, token, password or access key in plans."""

ALIASES = {
    scans.SCAN_SNAPSHOT_ID.key: "snapshot",
    scans.SCAN_TAG_NAME.key: "tag",
    scans.SCAN_TIMESTAMP.key: "timestamp",
    scans.SCAN_TIMESTAMP_MILLIS.key: "timestamp",
    "timestampasof": "timestamp",
    scans.SCAN_WATERMARK.key: "watermark",
    scans.SCAN_VERSION.key: "as-of",
    "versionasof": "as-of",
    "scan.from-snapshot-id": "starting-snapshot",
    "mergeschema": connector.WRITE_MERGE_SCHEMA.key,
    "partition-overwrite": "partitionoverwritemode",
}
"""The option's name here, by its name in Paimon and Spark."""

LIMITS = {what: f"read.stream.max{what}pertrigger" for what in ("files", "bytes", "rows")}
LEAST_ROWS, MOST_DELAY = "read.stream.minrowspertrigger", "read.stream.maxtriggerdelayms"
SNAPSHOTS, TIMESTAMPS = ("starting-snapshot", "snapshot"), ("starting-timestamp", "timestamp")
"""Options for the start of a stream. The second names are for batches, but Paimon also uses them for streams."""
OF_STATES = ("versionasof", "timestampasof")
"""Spark's own options that choose a state. Streams do not accept them."""
MODE, CONSUMER_ID, KINDS = scans.SCAN_MODE.key, scans.CONSUMER_ID.key, connector.READ_CHANGELOG.key
RAW = "raw"
"""The option of a stream that requests rows as they were written, even if these are partial rows."""
OF_STREAMS = (
    SNAPSHOTS[0],
    TIMESTAMPS[0],
    MODE,
    CONSUMER_ID,
    KINDS,
    RAW,
    "max-snapshots-per-trigger",
    *LIMITS.values(),
    LEAST_ROWS,
    MOST_DELAY,
)

FULL, CHANGES = "full", "changes"
MODES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "full": (FULL, ()),
    "latest-full": (FULL, ()),
    "latest": (CHANGES, ()),
    "from-snapshot": (CHANGES, SNAPSHOTS),
    "from-snapshot-full": (FULL, SNAPSHOTS),
    "from-timestamp": (CHANGES, TIMESTAMPS),
}
"""The start of a stream by ``scan.mode``, and the options of the mode, one of them required.

Without a mode (``default``) these options decide; without them, too, a stream begins with all rows.
"""

MERGE_SCHEMA, WIDENING, CASTING = (
    connector.WRITE_MERGE_SCHEMA.key,
    connector.WRITE_MERGE_SCHEMA_TYPE_WIDENING.key,
    connector.WRITE_MERGE_SCHEMA_EXPLICIT_CAST.key,
)
EVOLVING = frozenset((MERGE_SCHEMA, WIDENING, CASTING))
"""Options of a write that change the table's columns. The first is called ``mergeSchema`` in other Spark formats."""

OF_PAIMONS_WRITES = (connector.WRITE_USE_V2_WRITE.key,)
"""Options of Paimon's Spark connector for writes. Morrow behaves as if they were false."""

REPLACE_WHERE = "replacewhere"
"""The condition of an overwrite, under its name in Delta."""
PUSH_FILTERS, OVERWRITE_MODE = "push-filters", "partitionoverwritemode"

SOURCES_OF_CHANGES = tuple(
    option.key
    for option in (scans.INCREMENTAL_BETWEEN, scans.INCREMENTAL_BETWEEN_TIMESTAMP, scans.INCREMENTAL_TO_AUTO_TAG)
)
OF_CHANGES = (
    *SOURCES_OF_CHANGES,
    scans.INCREMENTAL_BETWEEN_SCAN_MODE.key,
    scans.INCREMENTAL_BETWEEN_TAG_TO_SNAPSHOT.key,
)
"""Options of a batch read that request the changes between two states. The first ones choose the states."""
OF_TABLE_READS = tuple(
    option.key
    for option in (
        scans.SCAN_IGNORE_CORRUPT_FILES,
        scans.SCAN_IGNORE_LOST_FILES,
        merging.DELETION_VECTORS_MERGE_ON_READ,
        table.POSTPONE_MERGE_ON_READ,
        features.BLOB_AS_DESCRIPTOR,
        features.BLOB_VIEW_RESOLVE_ENABLED,
    )
)
"""Options of a table that its reads and streams accept, too."""
ELSEWHERE = {
    **dict.fromkeys(
        ("catalog", "database", "table"),
        "name the table, by spark.table('pm.db.t') and writeTo('pm.db.t'), by all three, or give its path alone",
    ),
    KINDS: "in batches, read the system table of its path: .load(path + '$audit_log')",
}
"""Options of Paimon's format that Morrow does not accept, and their alternatives."""

PATH = "path"
"""The argument of `load` and `save`, which Spark passes as an option."""
OF_SPARK = frozenset({PATH, "paths", "checkpointlocation", "queryname", "outputmode"})
"""Further options that Spark passes."""

Clock: TypeAlias = Callable[[str], int | str]
"""A function that parses a time. Raises `ValueError` for other text."""


def get_clock(spark: SparkSession) -> Clock:
    """Return the function with which a session parses times, in milliseconds."""

    def millis(text: str) -> int:
        from pyspark.sql import functions as f

        found: int | None = spark.range(1).select(f.unix_millis(f.try_to_timestamp(f.lit(text)))).collect()[0][0]
        if found is None:
            raise ValueError("it is a time such as '2024-01-01 00:00:00'")
        return found

    return millis


def check_zone(text: str) -> str:
    """Return a time that names its zone.

    The zone is required if no session sets one. Raises `ValueError` without a zone.
    """
    if dt.datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("nothing says here which zone it is in; write it with an offset, such as +01:00")
    return text
