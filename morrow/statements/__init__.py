"""SQL statements: text becomes frozen values (`parser`), which the methods of `Table` and `Catalog` run.

Parsing knows no table: `parse_statements` returns the statements of a text, and refuses what is left over of them.
Queries go to DuckDB (`morrow.queries`). The runners are registered in `execution`.
"""

from __future__ import annotations
