"""Keys looked up in the upper levels of a merge tree: deletion vectors, changelogs, first rows."""
