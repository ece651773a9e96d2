"""System tables: a table's metadata as tables (``t$snapshots``, ``t$files``, ...)."""
