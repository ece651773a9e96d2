"""Table options: the only place where option strings are parsed and checked."""

from morrow.engine.options.parsing import flag
from morrow.engine.options.reading import (
    BUCKET_FUNCTIONS,
    DEFAULT_PARTITION_NAME,
    MERGE_ENGINE_PLUGINS,
    MERGE_ENGINES,
    TableOptions,
    parse_options,
)
from morrow.engine.options.writing import WriteOptions, parse_write_options

__all__ = [
    "BUCKET_FUNCTIONS",
    "DEFAULT_PARTITION_NAME",
    "MERGE_ENGINES",
    "MERGE_ENGINE_PLUGINS",
    "TableOptions",
    "WriteOptions",
    "flag",
    "parse_options",
    "parse_write_options",
]
