"""SQL statements: text becomes frozen values (`parsing`), which are run by the methods of `Table` and `Catalog`.

Parsing knows no table: `parsed` returns the statements of a text, and refuses what is left over of them. Each family
has a module that parses it and one that runs it; the runners are registered in `running`.
"""
