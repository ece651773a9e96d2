"""Options of file formats: ORC, Parquet, Avro, CSV, JSON and text."""

from __future__ import annotations

from morrow.engine.options.declaring import TUNING, Stage, honoured, idle, refused, unless
from morrow.engine.options.kinds import BOOL, INT, MEMORY, REAL, TEXT, WORD, words

ORC_COMPRESS = honoured("orc.compress", WORD, None, "Codec of ORC files; `file.compression` if not set")
ORC_STRIPE_SIZE = honoured("orc.stripe.size", MEMORY, None, "Size of a stripe, where `file.block-size` is not set")
ORC_DICTIONARY_KEY_THRESHOLD = honoured(
    "orc.dictionary.key.threshold", REAL, 0.8, "Share of distinct values up to which a column has a dictionary"
)
ORC_TIMESTAMP_LTZ_LEGACY_TYPE = refused(
    unless("Morrow writes ORC's instants as Paimon does by default", ("true",), Stage.WRITING),
    "orc.timestamp-ltz.legacy.type",
    BOOL,
    True,
    "Stores TIMESTAMP_LTZ as Paimon always did",
    rows=True,
)
MORROW_ORC_WRITER_TIME_ZONE = honoured(
    "morrow.orc.writer-time-zone",
    TEXT,
    "UTC",
    "Writer's time zone of ORC files that name none, Morrow's own option",
)
ORC_COLUMN_ENCODING_DIRECT = idle(TUNING, "orc.column.encoding.direct", INT, None, "Columns without a dictionary")
PARQUET_COMPRESSION = honoured(
    "parquet.compression", WORD, None, "Codec of Parquet files; `file.compression` if not set"
)
PARQUET_COMPRESSION_CODEC_ZSTD_LEVEL = honoured(
    "parquet.compression.codec.zstd.level",
    INT,
    None,
    "Level of the codec zstd; `file.compression.zstd-level` if not set",
)
PARQUET_ENABLE_DICTIONARY = honoured("parquet.enable.dictionary", BOOL, True, "Gives columns dictionaries")
PARQUET_WRITER_VERSION = honoured(
    "parquet.writer.version",
    words("v1", "v2", "parquet_1_0", "parquet_2_0"),
    None,
    "`v1`: without encodings that Java Paimon reads from 1.0.1 on",
)
PARQUET_PAGE_SIZE = honoured("parquet.page.size", MEMORY, None, "Size of a page")
PARQUET_BLOCK_SIZE = honoured(
    "parquet.block.size", MEMORY, None, "Size of a row group, where `file.block-size` is not set"
)
AVRO_CODEC = honoured("avro.codec", WORD, None, "Codec of Avro files; `file.compression` if not set")
CSV_FIELD_DELIMITER = honoured(
    "csv.field-delimiter", TEXT, ",", "Stands between values", former=("field-delimiter", "seq", "delimiter")
)
CSV_LINE_DELIMITER = honoured("csv.line-delimiter", TEXT, "\n", "Stands between rows", former=("lineSep",))
CSV_QUOTE_CHARACTER = honoured("csv.quote-character", TEXT, '"', "Stands around values", former=("quote",))
CSV_ESCAPE_CHARACTER = honoured(
    "csv.escape-character", TEXT, "\\", "Stands before a quote that belongs to a value", former=("escape",)
)
CSV_INCLUDE_HEADER = honoured(
    "csv.include-header", BOOL, False, "Begins files with the names of columns", former=("header",)
)
CSV_NULL_LITERAL = honoured("csv.null-literal", TEXT, "", "Stands for null", former=("nullvalue",))
CSV_MODE = refused(
    unless("Morrow reads files that are whole; `scan` raises Unsupported for others", ("permissive",)),
    "csv.mode",
    words("permissive", "dropmalformed", "failfast"),
    "permissive",
    "What a row does that does not parse",
    former=("mode",),
)
JSON_IGNORE_PARSE_ERRORS = refused(
    unless("Morrow reads files that are whole; `scan` raises Unsupported for others", ("false",)),
    "json.ignore-parse-errors",
    BOOL,
    False,
    "Takes what does not parse for null",
)
JSON_MAP_NULL_KEY_MODE = idle(
    "Morrow does not write JSON files", "json.map-null-key-mode", TEXT, None, "What a null key of a map does"
)
JSON_MAP_NULL_KEY_LITERAL = idle(
    "Morrow does not write JSON files", "json.map-null-key-literal", TEXT, "null", "Stands for a null key of a map"
)
JSON_LINE_DELIMITER = honoured("json.line-delimiter", TEXT, "\n", "Stands between rows")
TEXT_LINE_DELIMITER = honoured("text.line-delimiter", TEXT, "\n", "Stands between rows", former=("lineSep",))
