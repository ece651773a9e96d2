"""The error for tables that Spark's own catalog cannot hold."""

from __future__ import annotations

from morrow.engine.errors import Unsupported


def refused(call: str, name: str = "orders") -> Unsupported:
    """Returns the error for a call that would make a table."""
    return Unsupported(
        f"{call} with format('morrow')",
        hint="Spark's catalog does not tell the format where its tables are: write by "
        ".write.format('morrow').save(path), and for SQL use morrow.spark.attach or "
        f"CREATE TEMPORARY VIEW {name} USING morrow OPTIONS (path '...')",
    )
