"""Checks of incoming values for invalid Arrow arrays, and for values that Paimon types cannot hold.

Arrow does not check that arrays match their types: text may be invalid UTF-8, a decimal may exceed its precision,
offsets may decrease, a null count may be wrong. `check_table` and `check_frame` check incoming columns against their
own types. `check_values` checks the columns of the table against the ranges of Paimon types. Errors name the column,
member, row and value. ASCII text, the most expensive to check, is checked buffer by buffer.

Extension arrays, dictionaries, run-end encoded arrays and lists of other layouts are decoded first.
"""

from __future__ import annotations

import datetime as dt
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn, TypeAlias, TypeVar

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from morrow.engine.errors import CorruptFile, InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.arrow_buffers import Ints, read_fixed_values, to_series
from morrow.engine.format.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from morrow.engine.format.variant_arrays import VariantColumn
from morrow.engine.library_versions import export_series
from morrow.engine.names import clear_pattern_name
from morrow.readers.casts.dtypes import MIN_THREADED_ROWS, make_null_mask
from morrow.readers.expressions.sql import list_inner_types

MAX_DIGITS = 38
"""Maximum digits of decimals. More digits do not fit into 128 bits."""
PLAIN = {
    pa.string_view(): pa.large_string(),
    pa.binary_view(): pa.large_binary(),
    pa.date64(): pa.date32(),
    pa.float16(): pa.float32(),
}


def decode_array(array: pa.Array) -> pa.Array:
    """Return the same values without extension, dictionary or run-end encoding, and lists with 32-bit offsets."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return decode_array(array.storage)
    if kinds.is_dictionary(kind):
        # Polars' categories are views, which Arrow's `take` does not support.
        return decode_array(_remove_views(array.dictionary).take(array.indices))
    if kinds.is_run_end_encoded(kind):
        return decode_array(pc.run_end_decode(array))
    if kinds.is_struct(kind) and any(map(_is_encoded, kind)):
        members = [decode_array(member) for member in array.flatten()]
        named = [pa.field(each.name, member.type, each.nullable) for each, member in zip(kind, members)]
        return pa.StructArray.from_arrays(members, fields=named, mask=make_null_mask(array))
    if kinds.is_map(kind) and (_is_encoded(kind.key_field) or _is_encoded(kind.item_field)):
        offsets, entries = find_live_values(array)
        key, item = map(decode_array, entries.flatten())
        return pa.MapArray.from_arrays(narrow_type(offsets), key, item, mask=make_null_mask(array))
    if _is_list_of_another_layout(kind) or (kinds.is_list(kind) and _is_encoded(kind.value_field)):
        offsets, values = find_live_values(array)
        values = decode_array(values)
        target = pa.list_(pa.field("item", values.type))
        return pa.ListArray.from_arrays(narrow_type(offsets), values, target, mask=make_null_mask(array))
    return array


def _is_list_of_another_layout(kind: pa.DataType) -> bool:
    return bool(kinds.is_large_list(kind) or kinds.is_list_view(kind) or kinds.is_large_list_view(kind))


def find_live_values(array: pa.Array) -> tuple[Ints, pa.Array]:
    """Return the offsets (from 0, Int64) and the elements of lists, or entries of maps, without unused elements.

    An array may be a slice of a longer one, nulls may hide elements, and list views may have any order.
    """
    if kinds.is_map(array.type):
        entries = pa.list_(pa.struct([array.type.key_field.with_nullable(True), array.type.item_field]))
        array = array.cast(entries)
    lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int64())
    offsets = np.zeros(len(array) + 1, np.int64)
    np.cumsum(read_fixed_values(lengths, "int64"), out=offsets[1:])
    if kinds.is_list(array.type) or kinds.is_large_list(array.type):
        low, high = (array.offsets[at].as_py() for at in (0, len(array))) if len(array) else (0, 0)
        if high - low == offsets[-1]:
            return offsets, array.values.slice(low, high - low)
    return offsets, array.flatten()


def narrow_type(offsets: Ints) -> pa.Array:
    """Return offsets in 32 bits. Raises `pyarrow.ArrowInvalid` for too many elements."""
    return pa.array(offsets, pa.int64()).cast(pa.int32())


def is_text(kind: pa.DataType) -> bool:
    """Return whether Arrow's type is text, in any layout."""
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind))


def to_plain(array: pa.Array) -> pa.Array:
    """Return the same values in layouts that all libraries accept: `decode_array` at all depths, and no views.

    Decimals have 128 bits, dates 32, and floats at least 32. Raises `pyarrow.ArrowInvalid` for a longer decimal.
    """
    array = decode_array(array)
    kind = array.type
    if kinds.is_struct(kind) and kind.num_fields:
        members = [to_plain(array.field(i)) for i in range(kind.num_fields)]
        fields = [each.with_type(member.type) for each, member in zip(kind, members)]
        return pa.StructArray.from_arrays(members, fields=fields, mask=make_null_mask(array))
    if kinds.is_map(kind):
        offsets, entries = find_live_values(array)
        key, item = map(to_plain, entries.flatten())
        return pa.MapArray.from_arrays(narrow_type(offsets), key, item, mask=make_null_mask(array))
    if kinds.is_list(kind):
        offsets, values = find_live_values(array)
        return pa.ListArray.from_arrays(narrow_type(offsets), to_plain(values), mask=make_null_mask(array))
    if kinds.is_fixed_size_list(kind):
        values = to_plain(array.values[array.offset * kind.list_size : (array.offset + len(array)) * kind.list_size])
        return pa.FixedSizeListArray.from_arrays(values, kind.list_size, mask=make_null_mask(array))
    if kinds.is_decimal(kind):
        return array.cast(pa.decimal128(min(kind.precision, MAX_DIGITS), kind.scale))
    return array.cast(PLAIN.get(kind, kind))


def _is_encoded(field: pa.Field) -> bool:
    """Return whether the type contains a dictionary, at any depth."""
    kind = field.type
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if kinds.is_dictionary(kind):
        return True
    return any(_is_encoded(kind.field(i)) for i in range(kind.num_fields))


def _remove_views(values: pa.Array) -> pa.Array:
    if kinds.is_string_view(values.type):
        return values.cast(pa.large_string())
    return values.cast(pa.large_binary()) if kinds.is_binary_view(values.type) else values


T = TypeVar("T", pa.Array, pl.Series)

MAX_SHOWN_CHARACTERS = 80
"""Maximum characters of a value in messages. Longer values are cut off: a list may have millions of elements."""

UNCHECKED = (pl.Boolean, pl.Binary, pl.Date, pl.Datetime, pl.Duration, pl.Null, pl.Object)
"""Polars types, besides numbers, for which any buffer is valid, or which Arrow lacks."""
AS_BYTES = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}
STORED = {**AS_BYTES, pa.string_view(): pa.binary_view()}
OFFSETS: dict[pa.DataType, np.dtype[Any]] = {pa.binary(): np.dtype(np.int32), pa.large_binary(): np.dtype(np.int64)}
VIEW_BYTES, LENGTH_BITS, MAX_LENGTH, MAX_INLINE_BYTES = 16, np.uint64(32), np.uint64(0xFFFFFFFF), 12
HIGH_BITS = np.uint64(0x8080808080808080)
"""The bits that are 0 in eight bytes of ASCII."""

FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""The days 0001-01-01 and 9999-12-31 since 1970-01-01."""
DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
"""The length of a day by the unit of a time or timestamp."""

INT_BITS = 32
OF_YEARS = "is outside of the years 1 to 9999, as infinity is; write null, or a date in between"
OF_DAY = "is not a time of day, which ends before 24:00:00; write null, or a time in between"

HINTS: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (is_text, "it is not in UTF-8; decode the bytes from their own encoding first"),
    (kinds.is_decimal, "it has more digits than its type; cast the column from a wider decimal, with safe=True"),
    (kinds.is_time, OF_DAY),
)
BROKEN = "the Arrow array is not valid; make it again, and call its validate(full=True)"


def check_table(table: pa.Table, first_row: int) -> None:
    """Check columns of Arrow; row numbers in messages begin with `first_row`. Raises `InvalidArgument`."""

    def check(number: int) -> None:
        _check_chunks(table.column(number).chunks, _check, table.column_names[number], first_row)

    _check_columns(check, table.num_columns, table.num_rows)


def check_frame(frame: pl.DataFrame, first_row: int) -> None:
    """Check columns of Polars, which imports Arrow arrays without checks. Raises `InvalidArgument`."""
    columns = [column for column in frame.get_columns() if _is_checked(column.dtype)]

    def check(number: int) -> None:
        column = columns[number]
        _check_chunks(clear_pattern_name(column).get_chunks(), _check_series, column.name, first_row)

    _check_columns(check, len(columns), frame.height)


def _check_columns(check: Callable[[int], None], columns: int, rows: int) -> None:
    if rows < MIN_THREADED_ROWS:
        for number in range(columns):
            check(number)
    else:
        with ThreadPoolExecutor(pl.thread_pool_size()) as threads:
            list(threads.map(check, range(columns)))


def _check_chunks(chunks: Iterable[T], check: Callable[[T, str, int], None], name: str, first_row: int) -> None:
    for chunk in chunks:
        check(chunk, name, first_row)
        first_row += len(chunk)


def _is_checked(dtype: pl.DataType) -> bool:
    """Return whether buffers of this type may hold invalid values."""
    return not (dtype.is_integer() or dtype.is_float() or dtype in UNCHECKED)


def _check_series(series: pl.Series, name: str, first_row: int) -> None:
    if series.dtype == pl.String:
        if _has_ascii_views(export_series(series)):
            return
        try:
            series.cast(pl.Binary).cast(pl.String)  # Polars checks these casts, faster than Arrow checks views
            return
        except pl.exceptions.PolarsError:
            pass  # Arrow finds the row
    _check(export_series(series), name, first_row)


def _check(array: pa.Array, name: str, first_row: int) -> None:
    try:
        _validate(array)
    except (pa.ArrowException, IndexError) as error:
        _refuse(array, name, first_row, error)


def _validate(array: pa.Array) -> None:
    """Raise `pyarrow.ArrowInvalid` for an array that is not valid."""
    stored = AS_BYTES.get(array.type)
    if stored is not None:
        as_bytes = array.view(stored)
        as_bytes.validate(full=True)
        if _is_ascii(as_bytes):
            return
    array.validate(full=True)


def _is_ascii(array: pa.Array) -> bool:
    """Return whether all bytes of a valid binary array are ASCII, and thus text with any offsets."""
    _, offsets, data = array.buffers()
    if data is None or not len(array):
        return True
    width = OFFSETS[array.type]
    ends = np.frombuffer(offsets, width, len(array) + 1, array.offset * width.itemsize)
    used = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    words = len(used) // 8 * 8
    if np.bitwise_or.reduce(used[:words].view(np.uint64)) & HIGH_BITS:
        return False
    return not len(used[words:]) or bool(used[words:].max() < 0x80)


def _has_ascii_views(array: pa.Array) -> bool:
    """Return whether all text values are inline in their views (4 bytes of length, 12 bytes of text) and are ASCII."""
    _, views, *others = array.buffers()
    if others or not len(array):
        return not len(array)
    words = np.frombuffer(views, np.uint64, 2 * len(array), VIEW_BYTES * array.offset)
    first, second = np.bitwise_or.reduce(words[::2]), np.bitwise_or.reduce(words[1::2])
    if (first & HIGH_BITS) >> LENGTH_BITS or second & HIGH_BITS:
        return False
    lengths = words.view(np.uint32)[::4]
    return bool(first & MAX_LENGTH <= MAX_INLINE_BYTES or lengths.max() <= MAX_INLINE_BYTES)


def _refuse(array: pa.Array, name: str, first_row: int, error: Exception) -> NoReturn:
    row, path, inner, problem = _find_fault(array, name, error)
    place = f"column {path!r}" if row is None else f"column {path!r}, row {first_row + row}"
    hint = next((hint for test, hint in HINTS if test(inner.type) and len(inner) == 1 and _is_readable(inner)), None)
    what = BROKEN if hint is None else f"{show_value(inner, 0)} is not a valid {inner.type}: {hint}"
    raise InvalidArgument(f"{place}: {what} ({problem})") from error


def _find_fault(array: pa.Array, path: str, error: Exception) -> tuple[int | None, str, pa.Array, Exception]:
    """Return the row of the first invalid value, its path, the value as an array of one, and Arrow's reason.

    Members are checked first: Arrow validates all of them, even outside of a slice. The row is None if the fault is not
    in a single row.
    """
    for name, member, row_of in _walk_members(array):
        try:
            _validate(member)
        except pa.ArrowException as reason:
            at, below, inner, why = _find_fault(member, f"{path}.{name}" if name else path, reason)
            return None if at is None else row_of(at), below, inner, why
    row = _find_first_invalid(array)
    return row, path, array if row is None else array.slice(row, 1), error


def _find_first_invalid(array: pa.Array) -> int | None:
    """Return the row with the first invalid value, by bisection; None if the fault is not in a single row."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _is_valid(array.slice(low, middle - low)) else (low, middle)
    return None if high == low or _is_valid(array.slice(low, 1)) else low


def _is_readable(array: pa.Array) -> bool:
    """Return whether an array of one invalid value can be read: only the value is wrong, not the buffers."""
    return _is_valid(array.view(STORED[array.type])) if array.type in STORED else _is_valid(array, full=False)


def _is_valid(array: pa.Array, *, full: bool = True) -> bool:
    try:
        array.validate(full=full)
    except (pa.ArrowException, IndexError):
        return False
    return True


def _walk_members(array: pa.Array) -> Iterator[tuple[str, pa.Array, Callable[[int], int | None]]]:
    """Yield the names and arrays of an array's members, each with a function from a value's index to its row or
    None."""
    kind = array.type
    if not _is_valid(array, full=False):
        return
    if isinstance(kind, pa.BaseExtensionType):
        yield "", array.storage, lambda at: at
    elif kinds.is_struct(kind):
        yield from ((kind.field(i).name, array.field(i), lambda at: at) for i in range(kind.num_fields))
    elif kinds.is_dictionary(kind):
        yield "", array.dictionary, lambda at: _index_of(pc.equal(array.indices, at))
    elif kinds.is_run_end_encoded(kind):
        yield "", array.values, lambda at: max(array.run_ends[at - 1].as_py() - array.offset, 0) if at else 0
    elif kinds.is_fixed_size_list(kind):
        yield "element", array.values, lambda at: at // kind.list_size - array.offset
    elif kind.num_fields:
        offsets = array.offsets
        starts = offsets.slice(0, len(array))
        ends = pc.add(starts, array.sizes) if hasattr(array, "sizes") else offsets.slice(1)

        def row_of(at: int) -> int | None:
            return _index_of(pc.and_(pc.less_equal(starts, at), pc.greater(ends, at)))

        if kinds.is_map(kind):
            yield from (("key", array.keys, row_of), ("value", array.items, row_of))
        else:
            yield "element", array.values, row_of


def _index_of(mask: pa.Array) -> int | None:
    at = pc.index(mask, True).as_py()
    return None if at < 0 else at


def check_values(column: pa.ChunkedArray | pl.Series, field: t.DataField, first_row: int) -> None:
    """Check values in the type of their column: dates and times are in range, keys of a map are distinct.

    Raises:
        InvalidArgument: a date or timestamp outside of the years 1 to 9999, which Python and SQL cannot show, a time
            outside of a day, or a map with a repeated key.
    """
    if isinstance(column, pl.Series):
        chunks = [export_series(each) for each in column.get_chunks()] if column.dtype.is_temporal() else []
    else:
        chunks = column.chunks if _has_limits(column.type) else []
    for chunk in chunks:
        found = _find_unfit(chunk)
        if found is not None:
            row, path, problem = found
            raise InvalidArgument(f"column {field.name + path!r}, row {first_row + row}: {problem}")
        first_row += len(chunk)


def check_variants(column: pa.ChunkedArray, field: t.DataField, first_row: int) -> None:
    """Raise `InvalidArgument` for variants, at any depth of the column, whose bytes no reader could decode."""
    for chunk in column.chunks:
        if fault := _find_variant_fault(chunk, field.type):
            ends = range(1, len(chunk) + 1)
            row = bisect_left(ends, True, key=lambda end: bool(_find_variant_fault(chunk.slice(0, end), field.type)))
            raise InvalidArgument(f"column {field.name!r}, row {first_row + row}: its bytes are not VARIANT ({fault})")
        first_row += len(chunk)


def _find_variant_fault(array: pa.Array, kind: t.DataType) -> str | None:
    if not t.has_type(kind, t.VariantType):
        return None
    if isinstance(kind, t.VariantType):
        try:
            VariantColumn(array).check_bytes()
        except CorruptFile as error:
            return error.problem
        except Unsupported as error:
            return error.feature
        return None
    values = array if isinstance(kind, t.RowType) else find_live_values(array)[1]
    members = [values] if isinstance(kind, t.ArrayType) else values.flatten()
    return next(filter(None, map(_find_variant_fault, members, list_inner_types(kind))), None)


Unfit: TypeAlias = "tuple[int, str, str] | None"
"""The row of a value that its type does not allow, the path of its member, and the problem."""


def _has_limits(kind: pa.DataType) -> bool:
    """Return whether not all values of the Arrow type are values of a Paimon type."""
    if kinds.is_date(kind) or kinds.is_timestamp(kind) or kinds.is_time(kind) or kinds.is_map(kind):
        return True
    return any(_has_limits(kind.field(i).type) for i in range(kind.num_fields))


def _find_unfit(array: pa.Array) -> Unfit:
    kind = array.type
    if kinds.is_date(kind):
        return _find_outside(array, FIRST_DAY, LAST_DAY, OF_YEARS)
    if kinds.is_timestamp(kind):
        day = DAY[kind.unit]
        return None if kind.unit == "ns" else _find_outside(array, FIRST_DAY * day, (LAST_DAY + 1) * day - 1, OF_YEARS)
    if kinds.is_time(kind):
        return _find_outside(array, 0, DAY[kind.unit] - 1, OF_DAY)
    if not _has_limits(kind):
        return None
    if kinds.is_struct(kind):
        for member, values in zip(kind, array.flatten(), strict=True):
            if found := _find_unfit(values):
                return found[0], f".{member.name}{found[1]}", found[2]
        return None
    offsets, values = find_live_values(array)
    if kinds.is_map(kind) and (repeated := _find_repeated_key(array, offsets, values.flatten()[0])):
        return repeated
    found = _find_unfit(values)
    if found is None:
        return None
    row = int(np.searchsorted(offsets, found[0], side="right")) - 1
    return row, (found[1] if kinds.is_map(kind) else f".element{found[1]}"), found[2]


def _find_outside(array: pa.Array, low: int, high: int, problem: str) -> Unfit:
    numbers = array.view(pa.int32() if array.type.bit_width == INT_BITS else pa.int64())
    ends = pc.min_max(numbers).as_py()
    if ends["min"] is None or (ends["min"] >= low and ends["max"] <= high):
        return None
    row = pc.index(pc.or_(pc.less(numbers, low), pc.greater(numbers, high)), True).as_py()
    return row, "", f"{show_value(array, row)} {problem}"


def _find_repeated_key(array: pa.MapArray, offsets: Ints, keys: pa.Array) -> Unfit:
    lengths = np.diff(offsets)
    if not len(lengths) or lengths.max() <= 1:
        return None
    lists = to_series(pa.LargeListArray.from_arrays(pa.array(offsets), keys))
    row = (lists.list.n_unique() < lists.list.len()).arg_max()
    if row is None or lists[row].n_unique() == len(lists[row]):
        return None
    return row, "", f"the map {show_value(array, row)} has a key twice; choose one of its values"


def check_objects(values: Sequence[Any], kind: pa.DataType) -> None:
    """Check that Python values have the type that Arrow inferred from the first of them.

    Arrow reads numbers as dates and times. It drops the time of a datetime after a date, and the zone of an aware
    datetime after a naive one. NaT after a date becomes a day of the year 1.

    Raises `TypeError`: values of several types, or a time of day with a zone, which Paimon types cannot hold.
    """
    if kinds.is_struct(kind):
        for member in kind:
            rows = [None if each is None else dict(each).get(member.name) for each in values]
            check_objects(rows, member.type)
    elif kinds.is_list(kind):
        check_objects([each for value in values if value is not None for each in value], kind.value_type)
    else:
        wanted = next((python for test, python in PYTHON_TYPES if test(kind)), None)
        for python in {*map(type, values)} - {type(None)}:
            if wanted is not None and not wanted(python):
                row = list(map(type, values)).index(python)
                raise TypeError(f"{values[row]!r} is a {python.__name__} among values of {kind}; convert it yourself")
        if kinds.is_timestamp(kind) or kinds.is_time(kind):
            _check_zones(values, kind)


def find_mixed_types(values: Sequence[Any]) -> str | None:
    """Describe the first value whose Python type differs from that of the first one; None if there is none."""
    given = [(row, value) for row, value in enumerate(values) if value is not None]
    other = next(((row, value) for row, value in given if type(value) is not type(given[0][1])), None)
    if other is None:
        return None
    (first_row, first), (row, value) = given[0], other
    nan = next((at for at, each in (given[0], other) if isinstance(each, float) and each != each), None)
    hint = "convert all values to one type" if nan is None else "write None for missing values"
    return (
        f"row {first_row} is {_shorten(repr(first))} ({type(first).__name__}), row {row} is {_shorten(repr(value))} "
        f"({type(value).__name__}); {hint}"
    )


def _check_zones(values: Sequence[Any], kind: pa.DataType) -> None:
    zoned = kinds.is_timestamp(kind) and kind.tz is not None
    for value in values:
        if value is not None and (getattr(value, "tzinfo", None) is not None) != zoned:
            problem = "has no zone, unlike others of the column" if zoned else "has a zone, which would be dropped"
            raise TypeError(f"{value!r} {problem}; convert all of them yourself")


PYTHON_TYPES: tuple[tuple[Callable[[pa.DataType], bool], Callable[[type], bool]], ...] = (
    (kinds.is_date, lambda python: issubclass(python, dt.date) and not issubclass(python, dt.datetime)),
    (kinds.is_timestamp, lambda python: issubclass(python, (dt.datetime, np.datetime64))),
    (kinds.is_time, lambda python: issubclass(python, dt.time)),
    (kinds.is_floating, lambda python: not issubclass(python, (bool, np.bool_))),
    (kinds.is_binary, lambda python: not issubclass(python, str)),
)
"""Types that Arrow infers, each with the Python types whose values it keeps exactly."""


def show_value(array: pa.Array, row: int) -> str:
    """Return a value for a message: bytes for invalid UTF-8, numbers for dates and times out of range."""
    one = array.slice(row, 1)
    try:
        text = f"{one[0].value} {one.type}" if kinds.is_time(one.type) else repr(one[0].as_py())
    except UnicodeDecodeError:
        text = repr(one.cast(pa.large_binary())[0].as_py())
    except (ValueError, OverflowError, pa.ArrowException):  # Python cannot represent this date or time
        text = " ".join(str(one).split()).strip("[] ")
    return _shorten(text)


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]}..."


Kinds: TypeAlias = "str | int | pl.Series | np.ndarray[tuple[int], np.dtype[np.generic]] | Iterable[str | int] | None"
"""One kind for all rows (``"-D"`` or its code), the name of a column of the data, or a kind per row."""

CODES = {"+I": INSERT, "-U": UPDATE_BEFORE, "+U": UPDATE_AFTER, "-D": DELETE}

SPELLINGS = "+I, -U, +U, -D or their codes 0 to 3"


class KindColumn:
    """The kinds of rows that arrive in pieces."""

    def __init__(self, kinds: Kinds, names: tuple[str, ...]) -> None:
        self.column: str | None = None
        """The column of the data that holds kinds and is not a column of the table."""
        self._of_piece = self._chosen(kinds, names)
        self._row = 0

    def of(self, piece_column: Callable[[str], pl.Series], height: int) -> pl.Series:
        """Return the kinds of the next `height` rows (Int8). Raises `InvalidArgument` for an invalid kind."""
        kinds = self._of_piece(piece_column, height)
        self._row += height
        return kinds

    def check_end(self) -> None:
        """Raise `InvalidArgument` if there were more kinds than rows."""
        if isinstance(self._given, pl.Series) and len(self._given) != self._row:
            raise InvalidArgument(f"kinds has {len(self._given)} values for {self._row} rows; give one kind per row")

    _given: pl.Series | None = None

    def _chosen(self, kinds: Kinds, names: tuple[str, ...]) -> Callable[[Callable[[str], pl.Series], int], pl.Series]:
        if kinds is None:
            return lambda _column, height: _make_constant(INSERT, height)
        if isinstance(kinds, str) and kinds not in CODES:
            if kinds not in names:
                raise InvalidArgument(
                    f"kinds={kinds!r} is neither a kind ({SPELLINGS}) nor a column of the data, whose columns are "
                    f"{', '.join(names)}"
                )
            self.column = kinds
            return lambda column, _height: to_kind_codes(column(kinds))
        if isinstance(kinds, (str, int)):
            code = int(to_kind_codes(pl.Series([kinds]))[0])
            return lambda _column, height: _make_constant(code, height)
        self._given = to_kind_codes(_kinds_to_series(kinds))
        return self._next

    def _next(self, _column: Callable[[str], pl.Series], height: int) -> pl.Series:
        assert self._given is not None
        part = self._given.slice(self._row, height)
        if len(part) < height:
            raise InvalidArgument(f"kinds has {len(self._given)} values for more rows; give one kind per row")
        return part


def to_kind_codes(kinds: pl.Series) -> pl.Series:
    """Return the codes (Int8) of kinds given as text or codes.

    Raises `InvalidArgument`: a null, or a value that is not a kind.
    """
    kinds = clear_pattern_name(kinds)
    if kinds.dtype.is_integer():
        found = kinds.is_between(INSERT, DELETE)
        result = pl.select(pl.when(found).then(kinds).cast(pl.Int8)).to_series()
    elif kinds.dtype in (pl.String, pl.Categorical, pl.Enum, pl.Null):
        result = kinds.cast(pl.String).replace_strict(CODES, default=None, return_dtype=pl.Int8)
    else:
        raise InvalidArgument(f"row kinds are {SPELLINGS}, not values of type {kinds.dtype}")
    if result.null_count():
        row = int(result.is_null().arg_max() or 0)
        raise InvalidArgument(f"row {row}: the row kind {kinds[row]!r} is none of {SPELLINGS}")
    return result


def _kinds_to_series(kinds: Any) -> pl.Series:
    if isinstance(kinds, pl.Series):
        return kinds
    try:
        columnar = hasattr(kinds, "__array__") or hasattr(kinds, "__arrow_c_stream__")
        made = pl.Series(kinds if columnar else list(kinds))
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"kinds: a {type(kinds).__name__} holds no row kinds ({error})") from error
    return made.cast(pl.Int8) if not len(made) else made


def _make_constant(code: int, height: int) -> pl.Series:
    return pl.Series([code], dtype=pl.Int8).new_from_index(0, height)


def read_kind_field(rows: pl.DataFrame, field: str, first_row: int) -> pl.Series:
    """Return the codes of the kinds in the table's column ``rowkind.field`` (text).

    Raises `InvalidArgument`: a null, or text that is not a kind.
    """
    try:
        return to_kind_codes(rows[field])
    except InvalidArgument as error:
        raise InvalidArgument(f"the column {field!r} (rowkind.field), from row {first_row} on: {error}") from error
