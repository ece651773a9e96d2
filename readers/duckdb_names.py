"""Column names for DuckDB, which does not distinguish names that differ only in case (of the letters a to z).

By default DuckDB numbers such columns from the second on, and a query that spells the second one's name gets the first
one's values. So Morrow numbers all of them: a query that uses the table's own spelling then finds no column. Members of
rows, at any depth, are renamed likewise: of those DuckDB would silently read the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from morrow.readers.dataset import PaimonDataset


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
        return pa.struct([_apart(member).with_name(name) for member, name in zip(kind, names, strict=True)])
    if pa.types.is_map(kind):
        return pa.map_(_apart(kind.key_field), _apart(kind.item_field), kind.keys_sorted)
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_apart(kind.value_field), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(_apart(kind.value_field))
    if pa.types.is_list(kind):
        return pa.list_(_apart(kind.value_field))
    return kind


def _apart(field: pa.Field) -> pa.Field:
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


class ToldApart:
    """A dataset under names that are `told_apart`.

    DuckDB's filters are in these names, and expressions of Arrow cannot be renamed: rows are read whole and filtered
    here. Without a filter, columns are still selected in the files.
    """

    def __init__(self, source: PaimonDataset) -> None:
        self._source = source
        self._names = told_apart(source.schema.names)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([_apart(field).with_name(name) for field, name in zip(self._source.schema, self._names)])

    def read(self, columns: Sequence[str] | None, filter: pc.Expression | None) -> pa.RecordBatchReader:
        """Reads the rows, columns under their new names."""
        if filter is None:
            wanted = self._names if columns is None else list(columns)
            old = dict(zip(self._names, self._source.schema.names, strict=True))
            return _renamed(self._source.read([old[name] for name in wanted], None), wanted)
        whole = _renamed(self._source.read(None, None), self._names)
        chosen = None if columns is None else list(columns)
        return pads.Scanner.from_batches(whole, columns=chosen, filter=filter).to_reader()


def _renamed(reader: pa.RecordBatchReader, names: Sequence[str]) -> pa.RecordBatchReader:
    schema = pa.schema([_apart(field).with_name(name) for field, name in zip(reader.schema, names, strict=True)])
    batches = (pa.RecordBatch.from_arrays([*map(values_apart, batch.columns)], schema=schema) for batch in reader)
    return pa.RecordBatchReader.from_batches(schema, batches)
