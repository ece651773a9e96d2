"""SQL statements: text is parsed to frozen values (`parser`), which run by methods of `Table` and `Catalog`.

Parsing does not access tables. `parse_statements` returns the statements of a text, and refuses unparsed tokens.
Queries go to DuckDB (`morrow.queries`). The runners are registered in `execution`.
"""

from __future__ import annotations
