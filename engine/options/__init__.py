"""Table options: declared once, parsed and checked here and nowhere else."""

from morrow.engine.options.declaring import Declared
from morrow.engine.options.given import Options
from morrow.engine.options.reading import TableOptions, parse_options
from morrow.engine.options.writing import WriteOptions, parse_write_options

__all__ = ["Declared", "Options", "TableOptions", "WriteOptions", "parse_options", "parse_write_options"]
