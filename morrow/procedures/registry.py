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

ALIASES: Mapping[str, str] = {"rollback_to": "rollback"}
"""Names of procedures in Flink -> those in Spark."""

_MERGE = "run the statement MERGE INTO"
_COPY = "CALL sys.copy(...) copies a table, and Catalog.copy_table"
NOT_HERE: Mapping[str, str] = {
    **dict.fromkeys(("merge_into", "data_evolution_merge_into"), _MERGE),
    **dict.fromkeys(("clone", "copy_files"), _COPY),
    "drop_partition": "run ALTER TABLE ... DROP PARTITION",
    "full_text_search": "SELECT ... FROM full_text_search(...) returns the rows, as does Table.search_text",
    "query_service": "it starts a job of Flink",
    "remove_unexisting_manifests": "Table.doctor lists missing files, CALL sys.rollback(...) goes back before them",
    "rollback_to_as_latest": "CALL sys.rollback(...) makes a snapshot the newest one",
    "vector_search": "SELECT ... FROM vector_search(...) returns the rows, as does Table.search",
    "repair": "the catalog is its folders, so that no metastore can lag behind; Table.repair mends hints",
}
"""Paimon procedures that Morrow does not support, each with the reason."""


def find_procedure(name: str) -> Procedure:
    """Return a procedure by its name, in any case, with or without ``sys.``.

    Raises `Unsupported`: a Paimon procedure that Morrow does not support. `InvalidArgument`: an unknown name.
    """
    plain = name.strip().lower().removeprefix(NAMESPACE) if isinstance(name, str) else ""
    plain = ALIASES.get(plain, plain)
    if plain in PROCEDURES:
        return PROCEDURES[plain]
    if plain in NOT_HERE:
        raise Unsupported(f"the procedure {plain}", hint=NOT_HERE[plain])
    close = suggest_name(plain, PROCEDURES)
    raise InvalidArgument(f"there is no procedure {name!r}{close}; there are {', '.join(sorted(PROCEDURES))}")
