"""The names of the options of ``format("morrow")``, in lower case; `options` parses them."""

from __future__ import annotations

from collections.abc import Mapping

from morrow.engine.options.declared import scans
from morrow.engine.options.declared import spark as connector

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
"""Names in Paimon and Spark -> the option's name here."""

LIMITS = {what: f"read.stream.max{what}pertrigger" for what in ("files", "bytes", "rows")}
LEAST_ROWS, MOST_DELAY = "read.stream.minrowspertrigger", "read.stream.maxtriggerdelayms"
SNAPSHOTS, TIMESTAMPS = ("starting-snapshot", "snapshot"), ("starting-timestamp", "timestamp")
"""Options for the start of a stream; the second names are those of batches, which Paimon also uses for streams."""
OF_STATES = ("versionasof", "timestampasof")
"""Spark's own options of a state, which no stream takes, whatever they are called here."""
MODE, CONSUMER_ID, KINDS = scans.SCAN_MODE.key, scans.CONSUMER_ID.key, connector.READ_CHANGELOG.key
RAW = "raw"
"""The option of a stream that asks for rows as they were written, where they are no whole rows."""
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
"""``scan.mode`` -> the start of a stream, and the options of which it then needs one.

Without a mode (``default``) these options decide, and without them a stream begins with all rows.
"""

MERGE_SCHEMA, WIDENING, CASTING = (
    connector.WRITE_MERGE_SCHEMA.key,
    connector.WRITE_MERGE_SCHEMA_TYPE_WIDENING.key,
    connector.WRITE_MERGE_SCHEMA_EXPLICIT_CAST.key,
)
EVOLVING = frozenset((MERGE_SCHEMA, WIDENING, CASTING))
"""Options of a write that change the table's columns; the first is ``mergeSchema`` in other formats of Spark."""

OF_PAIMONS_WRITES = (connector.WRITE_USE_V2_WRITE.key,)
"""Options of Paimon's Spark connector with these prefixes; Morrow does what false means."""

REPLACE_WHERE = "replacewhere"
"""The condition of an overwrite, by the name that it has in Delta's format."""
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
"""Options of a batch read that ask for the changes between two states, and those of them that say which."""
ELSEWHERE = {
    **dict.fromkeys(
        ("catalog", "database", "table"),
        "name the table, by spark.table('pm.db.t') and writeTo('pm.db.t'), or give its path alone",
    ),
    KINDS: "in batches, read the system table of its path: .load(path + '$audit_log')",
}
"""Options that Paimon's format has, and what says the same here."""

PATH = "path"
"""The argument of `load` and `save`, as Spark passes it among the options."""
OF_SPARK = frozenset({PATH, "paths", "checkpointlocation", "queryname", "outputmode"})
"""Further options that Spark passes."""
