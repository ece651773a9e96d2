"""The file indexes that a table's options request, and their encoding from the columns of a data file.

Options, as Java reads them::

    file-index.<kind>.columns = <column>, <column>, <map column>[<key>]
    file-index.<kind>.<column>.<parameter> = <value>
    file-index.<kind>.<map column>.<parameter> = <value>        for all keys of the column that are indexed
    file-index.<kind>.<map column>[<key>].<parameter> = <value>

For a MAP column with text keys, an index covers the values of one key; rows without that key count as null.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.file_index import bitmap, bloom_filter, bsi, range_bitmap
from morrow.engine.format.file_index.bitmap import order_entries
from morrow.engine.format.file_index.container import INDEX_KINDS, MAGIC, NO_ROWS, VERSION
from morrow.engine.format.file_index.keys import KINDS, ColumnKeys, to_column_keys
from morrow.engine.format.types import CharType, DataField, DataType, MapType, VarCharType
from morrow.engine.names import get_series

PREFIX = "file-index."
COLUMNS = ".columns"
OPTION_PARTS = 3
"""The number of parts of an index option (kind, column, parameter). Options with other numbers have other meanings."""


@dataclass(frozen=True)
class RequestedIndex:
    """An index that is written for every data file of the table.

    Attributes:
        column: name of the column.
        key: the indexed key of a MAP column, else None.
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
        """Return the values to index, from a frame that has the column."""
        column = get_series(frame, self.column)
        if self.key is None:
            return column
        entry = pl.element().struct
        values = pl.element().filter(entry.field("key") == self.key).struct.field("value").last()
        return column.list.eval(values).list.first()


def find_requested_indexes(options: Mapping[str, str], fields: Sequence[DataField]) -> tuple[RequestedIndex, ...]:
    """Return the indexes that the options of a table request, ordered by column and kind as in `options`.

    Args:
        options: all options of the table, as strings.
        fields: the columns of the table.

    Raises:
        InvalidArgument: an empty or unknown column, a parameter of a column that is not indexed, a key of a column
            that is not a MAP or whose keys are not text.
        Unsupported: an unknown kind, or one that does not support the type of the column.
    """
    wanted = [
        (kind, *_split_key(name))
        for option, value in options.items()
        if option.startswith(PREFIX) and option.endswith(COLUMNS) and len(option) > len(PREFIX) + len(COLUMNS)
        for kind in [option[len(PREFIX) : -len(COLUMNS)]]
        for name in _split_names(option, value)
    ]
    parameters = _collect_parameters(options, wanted)
    by_name = {each.name: each for each in fields}
    return tuple(
        RequestedIndex(
            column,
            key,
            kind,
            _find_indexed_field(by_name, kind, column, key),
            {**parameters.get((kind, column, None), {}), **parameters.get((kind, column, key), {})},
        )
        for kind, column, key in dict.fromkeys(wanted)
    )


def build_container(frame: pl.DataFrame, wanted: Sequence[RequestedIndex]) -> bytes:
    """Return the container with the indexes of a data file, in the order in which Java writes them.

    `frame`: all rows of the file in file order, with at least the indexed columns.

    Raises `InvalidArgument`, `Unsupported`: see `build_index`.
    """
    columns: dict[str, dict[str, bytes | None]] = {}
    by_kind: dict[str, list[RequestedIndex]] = {}
    for each in wanted:
        by_kind.setdefault(each.kind, []).append(each)
    for kind, indexes in order_entries(by_kind).items():
        for index in indexes:
            no_rows = index.key is not None and frame.is_empty()
            body = None if no_rows else build_index(index.values(frame), index.field, kind, index.options)
            columns.setdefault(index.name, {})[kind] = body
    return write_container({name: order_entries(kinds) for name, kinds in order_entries(columns).items()})


_Requested = tuple[str, str, str | None]


def _split_names(option: str, value: str) -> list[str]:
    names = [name.strip() for name in value.rstrip(",").split(",")]
    if not all(names):
        raise InvalidArgument(f"the option {option!r} = {value!r} names an empty column")
    return names


def _split_key(name: str) -> tuple[str, str | None]:
    column, bracket, key = name.partition("[")
    return (column, key[:-1]) if bracket and name.endswith("]") else (name, None)


def _collect_parameters(
    options: Mapping[str, str], wanted: Sequence[_Requested]
) -> Mapping[_Requested, dict[str, str]]:
    indexed = {*wanted, *((kind, column, None) for kind, column, _ in wanted)}
    found: dict[_Requested, dict[str, str]] = {}
    for option, value in options.items():
        parts = option.removeprefix(PREFIX).split(".")
        if not option.startswith(PREFIX) or option.endswith(COLUMNS) or len(parts) != OPTION_PARTS:
            continue
        kind, name, parameter = parts
        index = (kind, *_split_key(name))
        if index not in indexed:
            hint = f"{PREFIX}{kind}{COLUMNS} does not name the column {name!r}"
            raise InvalidArgument(f"the option {option!r} is about an index that the table does not have: {hint}")
        found.setdefault(index, {})[parameter] = value
    return found


def _find_indexed_field(fields: Mapping[str, DataField], kind: str, column: str, key: str | None) -> DataField:
    if column not in fields:
        raise InvalidArgument(f"{PREFIX}{kind}{COLUMNS} names the column {column!r}; there are {', '.join(fields)}")
    found = fields[column]
    if key is not None:
        if not isinstance(found.type, MapType) or not isinstance(found.type.key, (CharType, VarCharType)):
            raise InvalidArgument(f"{PREFIX}{kind}{COLUMNS}: {column}[{key}] needs a MAP with text keys")
        found = DataField(found.id, f"{column}[{key}]", found.type.value)
    check_kind(kind, found.type, found.name)
    return found


FIXED_HEAD = 8 + 4 + 4 + 4
"""Magic, version, size of the head, number of columns."""
MAX_NAME_BYTES = 2**16 - 1

ENCODERS: Mapping[str, Callable[[ColumnKeys, Mapping[str, str]], bytes]] = {
    bloom_filter.NAME: bloom_filter.encode,
    bitmap.NAME: bitmap.encode,
    bsi.NAME: bsi.encode,
    range_bitmap.NAME: range_bitmap.encode,
}


def check_kind(kind: str, data_type: DataType, name: str) -> None:
    """Refuse an index that Java would not build either.

    Raises `Unsupported`: an unknown kind, or a kind that does not support the type of the column.
    """
    if kind not in ENCODERS:
        raise Unsupported(f"the file index {kind!r}", hint=f"known kinds: {', '.join(sorted(ENCODERS))}")
    if type(data_type) not in KINDS or not INDEX_KINDS[kind].supports(data_type):
        raise Unsupported(f"a {kind} index on the column {name!r} of type {data_type}")


def build_index(column: pl.Series, field: DataField, kind: str, options: Mapping[str, str]) -> bytes:
    """Return one index of one column of a data file.

    Args:
        column: all values of the file in file order, in the dtype in which frames hold the type; nulls allowed.
        field: the column; of a MAP key the values' type.
        kind: ``bloom-filter``, ``bitmap``, ``bsi`` or ``range-bitmap``.
        options: the parameters of the index: ``items`` and ``fpp``; ``version`` and ``index-block-size``; none;
            ``chunk-size``.

    Raises:
        Unsupported: the kind, or the type of the column for this kind.
        InvalidArgument: a parameter that does not parse or is out of range.
    """
    check_kind(kind, field.type, field.name)
    return ENCODERS[kind](to_column_keys(column, field.type), options)


def write_container(columns: Mapping[str, Mapping[str, bytes | None]]) -> bytes:
    """Return the container of these indexes.

    Args:
        columns: the indexes by column (``col[key]`` for a key of a MAP column) and kind, in the order in which they
            are written; None if no rows were indexed.

    Raises `InvalidArgument`: a name longer than 65,535 bytes, the maximum of its length field.
    """
    names = sum(len(_encode_utf(name)) + 4 for name in columns)
    size = FIXED_HEAD + names + sum(len(_encode_utf(kind)) + 8 for kinds in columns.values() for kind in kinds) + 4
    head = [struct.pack(">qiii", MAGIC, VERSION, size, len(columns))]
    bodies: list[bytes] = []
    at = size
    for name, kinds in columns.items():
        head.append(_encode_utf(name) + struct.pack(">i", len(kinds)))
        for kind, body in kinds.items():
            head.append(_encode_utf(kind) + struct.pack(">ii", NO_ROWS if body is None else at, len(body or b"")))
            bodies.append(body or b"")
            at += len(body or b"")
    return b"".join([*head, struct.pack(">i", 0), *bodies])


def _encode_utf(text: str) -> bytes:
    """Encode text as `DataOutput.writeUTF` does: NUL in two bytes, characters beyond the BMP as two surrogates."""
    units = text.encode("utf-16-be", "surrogatepass")
    halves = "".join(chr(unit) for unit in struct.unpack(f">{len(units) // 2}H", units))
    raw = halves.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")
    if len(raw) > MAX_NAME_BYTES:
        raise InvalidArgument(f"a name of {len(raw)} bytes in a file index; at most {MAX_NAME_BYTES} fit")
    return struct.pack(">H", len(raw)) + raw
