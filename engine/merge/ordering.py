"""The columns that order versions: ``sequence.field`` and the sequence columns of groups."""

from __future__ import annotations

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.types import (
    ArrayType,
    BlobType,
    MapType,
    MultisetType,
    RowType,
    VariantType,
    VectorType,
)
from morrow.engine.merge.field_options import require_columns
from morrow.engine.options import TableOptions
from morrow.engine.options.declared.columns import AGGREGATE_FUNCTION
from morrow.engine.options.declared.merging import SEQUENCE_FIELD

WITHOUT_ORDER = (VariantType, BlobType)
NESTED = (ArrayType, VectorType, MapType, MultisetType, RowType)
"""Types that Paimon orders element by element, although its documentation lists none of them."""


def check_sequence_fields(schema: TableSchema, options: TableOptions, where: str) -> None:
    """Checks ``sequence.field`` as Paimon does when it creates or opens a table, for engines that accept it.

    Raises:
        InvalidArgument: no column, named twice, an aggregate function of its own, a type without order, or keys that
            may move between partitions.
        Unsupported: a nested type.
    """
    names = options.sequence_fields
    require_columns(schema, names, SEQUENCE_FIELD.key, where)
    for name in names:
        if names.count(name) > 1:
            raise InvalidArgument(f"{where}: the option {SEQUENCE_FIELD} names {name!r} twice")
        function = AGGREGATE_FUNCTION.of(name)
        if options.given.has(function):
            raise InvalidArgument(
                f"{where}: {name!r} is a sequence field, which takes no aggregate function; remove the option "
                f"{function}"
            )
        check_comparable(schema, name, where)
    if names and schema.cross_partition:
        raise InvalidArgument(
            f"{where}: the option {SEQUENCE_FIELD} does not go with keys that may move between partitions; "
            f"add the partition keys {', '.join(schema.partition_keys)} to the primary key"
        )


def check_comparable(schema: TableSchema, name: str, where: str) -> None:
    """Raises `InvalidArgument` or `Unsupported` for a sequence column whose type has no order."""
    kind = schema.by_name[name].type
    if isinstance(kind, WITHOUT_ORDER):
        raise InvalidArgument(f"{where}: the sequence field {name!r} has the type {kind}, which cannot be compared")
    if isinstance(kind, NESTED):
        raise Unsupported(
            f"the sequence field {name!r} of the type {kind}",
            where=where,
            hint="order versions by a column that is not nested",
        )
