"""Schema files taken: a version of the schema is whoever creates its file first."""

from __future__ import annotations

from morrow.engine.errors import AlreadyExists, UnclearOutcome
from morrow.engine.format.schema import TableSchema, schema_json
from morrow.engine.plan.metadata import TableMetadata


def take_schema(metadata: TableMetadata, schema: TableSchema) -> bool:
    """Create the schema file of this id, durably; False when another writer was first."""
    path, data = metadata.paths.schema(schema.id), schema_json(schema)
    try:
        return metadata.store.create(path, data)
    except UnclearOutcome:
        # No two writers make equal bytes but by the millisecond of equal schemas, which is no harm.
        if metadata.store.exists(path):
            return metadata.store.read(path) == data
        raise


def create_first_schema(metadata: TableMetadata, schema: TableSchema) -> None:
    """Make the table: `schema` becomes its first schema.

    Raises:
        AlreadyExists: there is a table at this place.
    """
    if metadata.schema_ids() or not take_schema(metadata, schema):
        raise AlreadyExists(f"{metadata.where}: there is a table already")
