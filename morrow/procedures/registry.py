"""The registry of all procedures by name."""

from __future__ import annotations

from collections.abc import Mapping

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.procedures import files, snapshots
from morrow.procedures.procedure import Procedure, suggest_name

NAMESPACE = "sys."
"""The database of procedures in Paimon; optional in Morrow."""
TABLE = "table"

PROCEDURES: Mapping[str, Procedure] = {
    procedure.name: procedure
    for procedure in (
        *snapshots.REFERENCE_PROCEDURES,
        *snapshots.SNAPSHOT_PROCEDURES,
        *files.FILE_PROCEDURES,
        *files.LAYOUT_PROCEDURES,
        *files.METADATA_PROCEDURES,
        *files.TABLE_PROCEDURES,
    )
}

_VIEWS, _FUNCTIONS = "the catalog has no views", "the catalog has no functions"
_GLOBAL = "Morrow makes no global indexes"
NOT_HERE: Mapping[str, str] = {
    **dict.fromkeys(("create_function", "alter_function", "drop_function"), _FUNCTIONS),
    **dict.fromkeys(("create_global_index", "drop_global_index"), _GLOBAL),
    "alter_view_dialect": _VIEWS,
    "compact_chain_table": "Morrow has no chain tables",
    "materialize_deletion_vectors": "it is for tables with data evolution, whose files Morrow does not rewrite",
    "migrate_database": "it reads a Hive metastore; migrate_table clones a folder of Parquet files",
    "reassign_row_id": "Morrow does not rewrite files whose rows have ids",
    "repair": "the catalog is its folders, so that no metastore can lag behind; Table.repair mends hints",
}
"""Paimon procedures that Morrow does not support, each with the reason."""


def find_procedure(name: str) -> Procedure:
    """Return a procedure by its name, in any case, with or without ``sys.``.

    Raises:
        Unsupported: a Paimon procedure that Morrow does not support. InvalidArgument: an unknown name.
    """
    plain = name.strip().lower().removeprefix(NAMESPACE) if isinstance(name, str) else ""
    if plain in PROCEDURES:
        return PROCEDURES[plain]
    if plain in NOT_HERE:
        raise Unsupported(f"the procedure {plain}", hint=NOT_HERE[plain])
    close = suggest_name(plain, PROCEDURES)
    raise InvalidArgument(f"there is no procedure {name!r}{close}; there are {', '.join(sorted(PROCEDURES))}")
