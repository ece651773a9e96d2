"""What a merge engine does to the versions of a key, as data: readers compile it, nothing here runs it.

To add an engine: describe it as a `MergeSpec` here, register the function that makes the description from a table's
schema and options in `MERGE_ENGINES`, and give `readers.merge` a compiler for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.types import ArrayType, DataType, MapType, MultisetType, RowType, VariantType
from morrow.engine.options import TableOptions

NOT_COMPARABLE = (ArrayType, MapType, MultisetType, RowType, VariantType)


@dataclass(frozen=True)
class MergeSpec:
    """How versions of one key become one row.

    Versions are ordered by `sequence` columns (all descending when `descending`; null is the oldest), then by
    ``_SEQUENCE_NUMBER``. `ignore_delete` leaves retractions (``-U``, ``-D``) out before anything else is decided.
    """

    engine: str
    key: tuple[str, ...]
    sequence: tuple[str, ...] = ()
    descending: bool = False
    ignore_delete: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that decide which version of a key counts."""
        return tuple(dict.fromkeys((*self.key, *self.sequence)))

    def __str__(self) -> str:
        order = ", ".join([*(f"{c} {'DESC' if self.descending else 'ASC'}" for c in self.sequence), "_SEQUENCE_NUMBER"])
        ignored = ", retractions ignored" if self.ignore_delete else ""
        return f"{self.engine} by ({', '.join(self.key)}) ordered by {order}{ignored}"


def _deduplicate(schema: TableSchema, options: TableOptions, where: str) -> MergeSpec:
    """The newest version of a key is its row; none when that is a retraction."""
    for name in options.sequence_fields:
        _check_sequence_field(schema, name, where)
    return MergeSpec(
        "deduplicate",
        schema.trimmed_primary_keys,
        options.sequence_fields,
        options.sequence_descending,
        options.ignore_delete,
    )


def _first_row(schema: TableSchema, options: TableOptions, where: str) -> MergeSpec:
    """Compaction keeps the first version; above level 0 each key has one row, so reads merge nothing."""
    if options.sequence_fields:
        raise InvalidArgument(f"{where}: merge-engine first-row does not go with the option 'sequence.field'")
    return MergeSpec("first-row", schema.trimmed_primary_keys, ignore_delete=options.ignore_delete)


MERGE_ENGINES: Mapping[str, Callable[[TableSchema, TableOptions, str], MergeSpec]] = {
    "deduplicate": _deduplicate,
    "first-row": _first_row,
}


def merge_spec(schema: TableSchema, options: TableOptions, *, where: str) -> MergeSpec | None:
    """The merge of a primary-key table, None for append tables.

    Raises:
        Unsupported: a merge engine that Morrow does not read yet; never read as another one.
        InvalidArgument: options that contradict each other.
    """
    if not schema.primary_keys:
        return None
    build = MERGE_ENGINES.get(options.merge_engine)
    if build is None:
        raise Unsupported(
            f"the merge engine {options.merge_engine!r}",
            where=where,
            hint=f"Morrow reads {', '.join(MERGE_ENGINES)}; it will not read this table as one of them",
        )
    return build(schema, options, where)


def _check_sequence_field(schema: TableSchema, name: str, where: str) -> None:
    kind: DataType = schema.column(name).type
    if isinstance(kind, NOT_COMPARABLE):
        raise InvalidArgument(f"{where}: the sequence field {name!r} has the type {kind}, which cannot be compared")
