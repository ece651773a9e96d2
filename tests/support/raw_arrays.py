"""Arrow arrays of every layout, made from raw buffers: valid ones, and ones that violate their type."""

from __future__ import annotations

import datetime as dt
import random
import string
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

LONG = 16
"""A text of more than twelve bytes is stored outside of its view."""


@dataclass(frozen=True)
class Layout:
    """A type of Paimon, an Arrow type that stores its values, and sample values."""

    sql: str
    arrow: pa.DataType
    value: Callable[[random.Random], Any]

    def __str__(self) -> str:
        return f"{self.sql} as {self.arrow}"


def _text(rng: random.Random) -> str:
    return "".join(rng.choices(string.ascii_letters + "äß漢🦆", k=rng.choice([0, 1, 3, LONG])))


def _bytes(rng: random.Random) -> bytes:
    return rng.randbytes(rng.choice([0, 1, 3, LONG]))


def _decimal(rng: random.Random) -> Decimal:
    return Decimal(rng.randint(-99_999, 99_999)).scaleb(-2)


def _day(rng: random.Random) -> dt.date:
    return rng.choice([dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(9999, 12, 31)])


def _clock(rng: random.Random) -> dt.time:
    return rng.choice([dt.time(0), dt.time(12, 30, 15), dt.time(23, 59, 59)])


def _moment(rng: random.Random) -> dt.datetime:
    return dt.datetime.combine(
        rng.choice([dt.date(1700, 1, 1), dt.date(2024, 2, 29), dt.date(2200, 1, 1)]), _clock(rng)
    )


def _number(rng: random.Random) -> int:
    return rng.randint(-100, 100)


def _pairs(key: Callable[[random.Random], Any], item: Callable[[random.Random], Any]) -> Callable[[random.Random], Any]:
    return lambda rng: list({key(rng): item(rng) for _ in range(rng.randint(0, 3))}.items())


def _listed(value: Callable[[random.Random], Any]) -> Callable[[random.Random], Any]:
    return lambda rng: [rng.choice([None, value(rng)]) for _ in range(rng.randint(0, 3))]


TEXTS = (pa.string(), pa.large_string(), pa.string_view())
LISTS = (pa.list_, pa.large_list, pa.list_view, pa.large_list_view)


def newer(name: str) -> list[Callable[..., pa.DataType]]:
    """Return the maker of a type that older versions of pyarrow lack, or nothing."""
    return [getattr(pa, name)] if hasattr(pa, name) else []


LAYOUTS = (
    *(Layout("STRING", kind, _text) for kind in TEXTS),
    *(Layout("STRING", pa.dictionary(index, kind), _text) for index in (pa.int8(), pa.uint32()) for kind in TEXTS[:2]),
    Layout("STRING", pa.run_end_encoded(pa.int32(), pa.string()), _text),
    *(Layout("STRING", kind(), lambda rng: f'"{_text(rng)}"') for kind in newer("json_")),
    *(Layout("BYTES", kind, _bytes) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())),
    Layout("BINARY(4)", pa.binary(4), lambda rng: rng.randbytes(4)),
    *(Layout("BIGINT", kind, _number) for kind in (pa.int8(), pa.int32(), pa.int64())),
    Layout("BIGINT", pa.dictionary(pa.int16(), pa.int64()), _number),
    Layout("BIGINT", pa.run_end_encoded(pa.int16(), pa.int64()), _number),
    Layout("BOOLEAN", pa.bool_(), lambda rng: rng.random() < 0.5),
    *(
        Layout("DOUBLE", kind, lambda rng: rng.randint(-9, 9) / 4)
        for kind in (pa.float16(), pa.float32(), pa.float64())
    ),
    *(
        Layout("DECIMAL(5, 2)", kind(5, 2), _decimal)
        for kind in (*newer("decimal32"), *newer("decimal64"), pa.decimal128, pa.decimal256)
    ),
    *(Layout("DATE", kind, _day) for kind in (pa.date32(), pa.date64())),
    *(Layout("TIME(3)", kind, _clock) for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))),
    *(Layout("TIMESTAMP(6)", pa.timestamp(unit), _moment) for unit in ("s", "ms", "us", "ns")),
    Layout("TIMESTAMP(3) WITH LOCAL TIME ZONE", pa.timestamp("ms", "Asia/Tokyo"), _moment),
    *(Layout("ARRAY<STRING>", kind(pa.string()), _listed(_text)) for kind in LISTS),
    Layout("ARRAY<DECIMAL(5, 2)>", pa.list_(pa.decimal128(5, 2)), _listed(_decimal)),
    Layout("ARRAY<STRING>", pa.list_(pa.dictionary(pa.int8(), pa.string())), _listed(_text)),
    Layout("ARRAY<DATE>", pa.list_(pa.date32(), 2), lambda rng: [_day(rng), _day(rng)]),
    Layout("MAP<STRING, TIME(3)>", pa.map_(pa.string(), pa.time32("ms")), _pairs(_text, _clock)),
    Layout(
        "ROW<m MAP<STRING, BIGINT>, r ROW<l ARRAY<STRING>>>",
        pa.struct({"m": pa.map_(pa.string(), pa.int64()), "r": pa.struct({"l": pa.list_(pa.string(), 2)})}),
        lambda rng: {"m": None, "r": rng.choice([None, {"l": None}, {"l": [_text(rng), None]}])},
    ),
    Layout("MAP<BIGINT, DATE>", pa.map_(pa.int64(), pa.date32()), _pairs(_number, _day)),
    Layout(
        "ROW<a STRING, b DECIMAL(5, 2), c ARRAY<STRING>>",
        pa.struct(
            {
                "a": pa.string(),
                "b": next(iter(newer("decimal64")), pa.decimal128)(5, 2),
                "c": pa.list_view(pa.large_string()),
            }
        ),
        lambda rng: {"a": _text(rng), "b": _decimal(rng), "c": _listed(_text)(rng)},
    ),
)


def sound(rng: random.Random, layout: Layout, rows: int) -> pa.Array:
    """Return an array of this layout, often with nulls or as a slice of a longer one."""
    nulls = rng.choice([0.0, 0.3])
    before, after = rng.choice([0, 0, 3, 9]), rng.choice([0, 0, 2])
    values = [None if rng.random() < nulls else layout.value(rng) for _ in range(before + rows + after)]
    return _typed(values, layout.arrow).slice(before, rows)


def _typed(values: list[Any], kind: pa.DataType) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _typed(values, kind.storage_type))
    if kinds.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    if kinds.is_run_end_encoded(kind):
        return pc.run_end_encode(pa.array(values, kind.value_type), run_end_type=kind.run_end_type)
    if kinds.is_list(kind) and kinds.is_dictionary(kind.value_type):
        plain = pa.array(values, pa.list_(kind.value_type.value_type))
        mask = plain.is_null() if plain.null_count else None
        return pa.ListArray.from_arrays(plain.offsets, _typed(plain.values.to_pylist(), kind.value_type), mask=mask)
    return pa.array(values, kind)


def damaged(rng: random.Random, array: pa.Array) -> pa.Array:
    """Return the array with one defect: changed or missing bytes of a buffer, another null count, or other children.

    Raises:
        pa.ArrowException: Arrow itself refuses to make such an array.
    """
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, damaged(rng, array.storage))
    if kinds.is_dictionary(kind):
        if rng.random() < 0.5:
            return pa.DictionaryArray.from_arrays(array.indices, damaged(rng, array.dictionary), safe=False)
        return pa.DictionaryArray.from_arrays(_own_damage(rng, array.indices, []), array.dictionary, safe=False)
    children = _children(array)
    if children and rng.random() < 0.6:
        at = rng.randrange(len(children))
        children[at] = damaged(rng, children[at])
        return _made(array, _buffers(array), children)
    return _own_damage(rng, array, children)


def has_sound_buffers(array: pa.Array) -> bool:
    """Return whether at most values of text or numbers are wrong, so that other libraries convert the array.

    Times do not count: those out of range become null in Polars.
    """
    kind = array.type
    if (
        kinds.is_time(kind)
        or kinds.is_nested(kind)
        or isinstance(kind, pa.BaseExtensionType)
        or kinds.is_dictionary(kind)
    ):
        return False
    stored = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}
    try:
        array.view(stored[kind]).validate(full=True) if kind in stored else array.validate()
    except pa.ArrowException:
        return False
    return kinds.is_primitive(kind) or kind in stored


def _own_damage(rng: random.Random, array: pa.Array, children: list[pa.Array]) -> pa.Array:
    buffers = _buffers(array)
    there = [at for at, buffer in enumerate(buffers) if buffer is not None and buffer.size]
    if not there or rng.random() < 0.15:
        return _made(array, buffers, children, null_count=rng.choice([0, 1, len(array)]))
    at = rng.choice(there)
    data = np.frombuffer(buffers[at], np.uint8).copy()
    if rng.random() < 0.1:
        data = data[: rng.randrange(len(data))]
    else:
        first = rng.randrange(len(data))
        width = rng.choice([1, 1, 4, 8])
        data[first : first + width] = rng.choice([0xFF, 0x80, 0x00, 0x7F, 0xC3, rng.randrange(256)])
    buffers[at] = pa.py_buffer(data)
    return _made(array, buffers, children)


def _children(array: pa.Array) -> list[pa.Array]:
    kind = array.type
    if kinds.is_struct(kind):
        # The member of a slice is a slice, while the struct's own buffers begin earlier.
        return [pa.concat_arrays([array.field(i)]) for i in range(kind.num_fields)]
    if kinds.is_map(kind):
        return [pa.StructArray.from_arrays([array.keys, array.items], fields=[kind.key_field, kind.item_field])]
    if kinds.is_run_end_encoded(kind):
        return [array.run_ends, array.values]
    return [array.values] if kind.num_fields else []


def _buffers(array: pa.Array) -> list[pa.Buffer | None]:
    """Return the array's own buffers without its children's."""
    buffers = array.buffers()
    return buffers[: len(buffers) - sum(len(child.buffers()) for child in _children(array))]


def _made(array: pa.Array, buffers: list[pa.Buffer | None], children: list[pa.Array], null_count: int = -1) -> pa.Array:
    kind = array.type
    if kinds.is_run_end_encoded(kind):
        return pa.RunEndEncodedArray.from_buffers(kind, len(array), buffers, -1, array.offset, children)
    if kinds.is_struct(kind) and children:
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    return pa.Array.from_buffers(kind, len(array), buffers, null_count, array.offset, children or None)
