"""Options of columns: ``fields.<column>.<suffix>``; a sequence group may name several columns between commas."""

from __future__ import annotations

from morrow.engine.options.declaring import NOT_WRITTEN, OTHER_ROWS, TUNING, ColumnOption, Stage, unless
from morrow.engine.options.kinds import BOOL, INT, NAMES, TEXT, WORD, words

NESTED_NULLS = words("merge", "ignore", "error")

AGGREGATE_FUNCTION = ColumnOption("aggregate-function", TEXT, None, "Function that folds the values of a key")
IGNORE_RETRACT = ColumnOption("ignore-retract", BOOL, False, "Leaves the value as it is when a row is retracted")
SEQUENCE_GROUP = ColumnOption("sequence-group", TEXT, None, "Names the columns that these columns order")
NESTED_KEY = ColumnOption("nested-key", TEXT, None, "Members that tell which nested rows are the same")
NESTED_KEY_NULL_STRATEGY = ColumnOption(
    "nested-key-null-strategy",
    NESTED_NULLS,
    "merge",
    "What nested rows with a null key do",
    refusal=unless(OTHER_ROWS, ("merge",)),
)
NESTED_SEQUENCE_FIELD = ColumnOption(
    "nested-sequence-field",
    NAMES,
    (),
    "Members that order nested rows",
    refusal=unless(OTHER_ROWS),
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
    idle="Paimon has it no more; give the column a default",
)
MAP_STORAGE_LAYOUT = ColumnOption(
    "map.storage-layout",
    words("default", "shared-shredding"),
    "default",
    "How maps are stored",
    rows=False,
    refusal=unless(NOT_WRITTEN, ("default",), Stage.READING, Stage.WRITING),
)
MAP_STORAGE_LAYOUT_OF_OLD = ColumnOption(
    "map-storage-layout",
    words("default", "shared-shredding"),
    "default",
    "How maps are stored, in early versions",
    rows=False,
    refusal=unless(NOT_WRITTEN, ("default",), Stage.READING, Stage.WRITING),
)
MAP_SHREDDING_MAX_COLUMNS = ColumnOption(
    "map.shared-shredding.max-columns", INT, 256, "Most columns of a shredded map", rows=False, idle=TUNING
)
MAP_SHREDDING_PLACEMENT = ColumnOption(
    "map.shared-shredding.column-placement-policy",
    words("plain", "sequential", "lru"),
    "lru",
    "Which column of a shredded map takes a key",
    rows=False,
    idle=TUNING,
)
