"""HTML for notebooks and reports: everything that is text is escaped, here and nowhere else.

| module | holds |
|---|---|
| `elements` | elements, escaped text, SVG shapes |
| `tables` | tables, lists of facts |
| `page` | a whole page: style for light and dark, no network |
"""
