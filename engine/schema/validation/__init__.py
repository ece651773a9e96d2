"""The rules that a schema with its options obeys before it is stored."""

from __future__ import annotations

from morrow.engine.format.schema import TableSchema


def validate_schema(schema: TableSchema, *, where: str) -> None:
    """Raises `InvalidArgument` or `Unsupported` for the first rule that the schema breaks."""
