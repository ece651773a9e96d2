"""System tables: what a table knows about itself, as tables (``t$snapshots``, ``t$files``, ...)."""
