"""The file indexes that a table's options ask for, and how they are built from the columns of a data file.

Options, as Java reads them::

    file-index.<kind>.columns = <column>, <column>, <map column>[<key>]
    file-index.<kind>.<column>.<parameter> = <value>
    file-index.<kind>.<map column>.<parameter> = <value>        for all keys of the column that are indexed
    file-index.<kind>.<map column>[<key>].<parameter> = <value>

For a MAP column with text keys, an index covers the values of one key; rows without that key count as null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.file_index.container_encode import build_index, check_kind, write_container
from morrow.engine.format.file_index.java_order import in_map_order
from morrow.engine.format.types import CharType, DataField, MapType, VarCharType
from morrow.engine.names import series

PREFIX = "file-index."
COLUMNS = ".columns"
OPTION_PARTS = 3
"""The number of parts of such an option (kind, column, parameter); options of any other number mean something else."""


@dataclass(frozen=True)
class WantedIndex:
    """An index that every data file of the table gets.

    Attributes:
        column: name of the column.
        key: for a MAP column the key whose values are indexed, else None.
        kind: such as ``bitmap``.
        field: the indexed field: the column, or the values of the key.
        options: parameters of the index.
    """

    column: str
    key: str | None
    kind: str
    field: DataField
    options: Mapping[str, str]

    @property
    def name(self) -> str:
        """The name of the column in the container."""
        return self.column if self.key is None else f"{self.column}[{self.key}]"

    def values(self, frame: pl.DataFrame) -> pl.Series:
        """Returns the indexed values of a frame that has the column."""
        column = series(frame, self.column)
        if self.key is None:
            return column
        entry = pl.element().struct
        values = pl.element().filter(entry.field("key") == self.key).struct.field("value").last()
        return column.list.eval(values).list.first()


def wanted_indexes(options: Mapping[str, str], fields: Sequence[DataField]) -> tuple[WantedIndex, ...]:
    """Returns the indexes that the options of a table ask for, ordered by column and kind as in `options`.

    Args:
        options: all options of the table, as strings.
        fields: the columns of the table.

    Raises:
        InvalidArgument: an empty or unknown column, a parameter of a column that is not indexed, a key of a column
            that is not a MAP or whose keys are not text.
        Unsupported: an unknown kind, or one that does not support the type of the column.
    """
    wanted = [
        (kind, *_column_and_key(name))
        for option, value in options.items()
        if option.startswith(PREFIX) and option.endswith(COLUMNS) and len(option) > len(PREFIX) + len(COLUMNS)
        for kind in [option[len(PREFIX) : -len(COLUMNS)]]
        for name in _names(option, value)
    ]
    parameters = _parameters(options, wanted)
    by_name = {each.name: each for each in fields}
    return tuple(
        WantedIndex(
            column,
            key,
            kind,
            _indexed_field(by_name, kind, column, key),
            {**parameters.get((kind, column, None), {}), **parameters.get((kind, column, key), {})},
        )
        for kind, column, key in dict.fromkeys(wanted)
    )


def build_container(frame: pl.DataFrame, wanted: Sequence[WantedIndex]) -> bytes:
    """Returns the container with the indexes of a data file, in the order in which Java writes them.

    Args:
        frame: all rows of the file in file order; at least the indexed columns.

    Raises:
        InvalidArgument, Unsupported: see `build_index`.
    """
    columns: dict[str, dict[str, bytes | None]] = {}
    by_kind: dict[str, list[WantedIndex]] = {}
    for each in wanted:
        by_kind.setdefault(each.kind, []).append(each)
    for kind, indexes in in_map_order(by_kind).items():
        for index in indexes:
            no_rows = index.key is not None and frame.is_empty()
            body = None if no_rows else build_index(index.values(frame), index.field, kind, index.options)
            columns.setdefault(index.name, {})[kind] = body
    return write_container({name: in_map_order(kinds) for name, kinds in in_map_order(columns).items()})


_Wanted = tuple[str, str, str | None]


def _names(option: str, value: str) -> list[str]:
    names = [name.strip() for name in value.rstrip(",").split(",")]
    if not all(names):
        raise InvalidArgument(f"the option {option!r} = {value!r} names an empty column")
    return names


def _column_and_key(name: str) -> tuple[str, str | None]:
    column, bracket, key = name.partition("[")
    return (column, key[:-1]) if bracket and name.endswith("]") else (name, None)


def _parameters(options: Mapping[str, str], wanted: Sequence[_Wanted]) -> Mapping[_Wanted, dict[str, str]]:
    indexed = {*wanted, *((kind, column, None) for kind, column, _ in wanted)}
    found: dict[_Wanted, dict[str, str]] = {}
    for option, value in options.items():
        parts = option.removeprefix(PREFIX).split(".")
        if not option.startswith(PREFIX) or option.endswith(COLUMNS) or len(parts) != OPTION_PARTS:
            continue
        kind, name, parameter = parts
        index = (kind, *_column_and_key(name))
        if index not in indexed:
            hint = f"{PREFIX}{kind}{COLUMNS} does not name the column {name!r}"
            raise InvalidArgument(f"the option {option!r} is about an index that the table does not have: {hint}")
        found.setdefault(index, {})[parameter] = value
    return found


def _indexed_field(fields: Mapping[str, DataField], kind: str, column: str, key: str | None) -> DataField:
    if column not in fields:
        raise InvalidArgument(f"{PREFIX}{kind}{COLUMNS} names the column {column!r}; there are {', '.join(fields)}")
    found = fields[column]
    if key is not None:
        if not isinstance(found.type, MapType) or not isinstance(found.type.key, (CharType, VarCharType)):
            raise InvalidArgument(f"{PREFIX}{kind}{COLUMNS}: {column}[{key}] needs a MAP with text keys")
        found = DataField(found.id, f"{column}[{key}]", found.type.value)
    check_kind(kind, found.type, found.name)
    return found
