"""Table options: declared once, and parsed and checked only here."""

from typing import TYPE_CHECKING, Any

from morrow.engine.options.declarations import Declared, Options
from morrow.engine.options.table_options import TableOptions, parse_options

if TYPE_CHECKING:
    from morrow.engine.options.write_options import WriteOptions, parse_write_options

__all__ = ["Declared", "Options", "TableOptions", "WriteOptions", "parse_options", "parse_write_options"]


def __getattr__(name: str) -> Any:
    # Reads do not need the options of writers.
    if name not in ("WriteOptions", "parse_write_options"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from morrow.engine.options import write_options

    return getattr(write_options, name)
