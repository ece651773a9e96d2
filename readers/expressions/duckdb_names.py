"""Column names for DuckDB, which does not distinguish names that differ only in case (of the letters a to z).

By default DuckDB numbers such columns from the second on, and a query that spells the second one's name gets the first
one's values. So Morrow numbers all of them: a query that uses the table's own spelling then finds no column. Members of
rows, at any depth, are renamed likewise: of those DuckDB would silently read the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa


def told_apart(names: Sequence[str]) -> list[str]:
    """Returns the names; those that DuckDB cannot distinguish get an underscore and a number: ``a_1``, ``A_2``."""
    count = Counter(map(_folded, names))
    taken = set(count)
    numbers: Counter[bytes] = Counter()
    found = []
    for name in names:
        wanted, key = name, _folded(name)
        while count[key] > 1 and _folded(wanted) in taken:
            numbers[key] += 1
            wanted = f"{name}_{numbers[key]}"
        taken.add(_folded(wanted))
        found.append(wanted)
    return found


def _folded(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass").lower()  # by bytes, ASCII letters only, as in DuckDB


def is_apart(schema: pa.Schema) -> bool:
    """Returns whether DuckDB distinguishes all columns, and all members of rows in them."""
    return told_apart(schema.names) == schema.names and all(members_apart(kind) == kind for kind in schema.types)


def members_apart(kind: pa.DataType) -> pa.DataType:
    """Returns the type with the members of its rows `told_apart`; the layout of its values is the same."""
    if pa.types.is_struct(kind):
        names = told_apart([member.name for member in kind])
        return pa.struct([field_apart(member).with_name(name) for member, name in zip(kind, names, strict=True)])
    if pa.types.is_map(kind):
        return pa.map_(field_apart(kind.key_field), field_apart(kind.item_field), kind.keys_sorted)
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(field_apart(kind.value_field), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(field_apart(kind.value_field))
    if pa.types.is_list(kind):
        return pa.list_(field_apart(kind.value_field))
    return kind


def field_apart(field: pa.Field) -> pa.Field:
    """Returns the field with `members_apart`."""
    return field.with_type(members_apart(field.type))


def values_apart(values: pa.Array) -> pa.Array:
    """Returns the same values, uncopied, with the type `members_apart`."""
    kind = members_apart(values.type)
    return values if kind == values.type else values.view(kind)


def rows_apart(rows: pa.Table) -> pa.Table:
    """Returns the rows with members `told_apart`, columns under their names."""
    for i, field in enumerate(rows.schema):
        kind = members_apart(field.type)
        if kind != field.type:
            chunks = [values_apart(chunk) for chunk in rows.column(i).chunks]
            rows = rows.set_column(i, field.with_type(kind), pa.chunked_array(chunks, kind))
    return rows
