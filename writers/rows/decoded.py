"""Decoding of Arrow arrays that are extension types, dictionaries, run-end encoded or lists of other layouts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from morrow.engine.format.arrow_buffers import Ints, fixed_values
from morrow.readers.casts.dtypes import null_mask

MAX_DIGITS = 38
"""Decimals of more digits do not fit into 128 bits."""
PLAIN = {
    pa.string_view(): pa.large_string(),
    pa.binary_view(): pa.large_binary(),
    pa.date64(): pa.date32(),
    pa.float16(): pa.float32(),
}


def decoded(array: pa.Array) -> pa.Array:
    """Returns the same values without extension, dictionary or run-end encoding, lists with 32-bit offsets."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return decoded(array.storage)
    if kinds.is_dictionary(kind):
        # Polars' categories are views, which Arrow's `take` does not support.
        return decoded(_without_views(array.dictionary).take(array.indices))
    if kinds.is_run_end_encoded(kind):
        return decoded(pc.run_end_decode(array))
    if kinds.is_struct(kind) and any(map(_is_encoded, kind)):
        members = [decoded(member) for member in array.flatten()]
        named = [pa.field(each.name, member.type, each.nullable) for each, member in zip(kind, members)]
        return pa.StructArray.from_arrays(members, fields=named, mask=null_mask(array))
    if kinds.is_map(kind) and (_is_encoded(kind.key_field) or _is_encoded(kind.item_field)):
        offsets, entries = live_values(array)
        key, item = map(decoded, entries.flatten())
        return pa.MapArray.from_arrays(narrow(offsets), key, item, mask=null_mask(array))
    if _is_list_of_another_layout(kind) or (kinds.is_list(kind) and _is_encoded(kind.value_field)):
        offsets, values = live_values(array)
        values = decoded(values)
        target = pa.list_(pa.field("item", values.type))
        return pa.ListArray.from_arrays(narrow(offsets), values, target, mask=null_mask(array))
    return array


def _is_list_of_another_layout(kind: pa.DataType) -> bool:
    return bool(kinds.is_large_list(kind) or kinds.is_list_view(kind) or kinds.is_large_list_view(kind))


def live_values(array: pa.Array) -> tuple[Ints, pa.Array]:
    """Returns the offsets (from 0, Int64) and the elements of lists, or entries of maps, without those in no list.

    An array may be a slice of a longer one, nulls may hide elements, and views may have them in any order.
    """
    if kinds.is_map(array.type):
        entries = pa.list_(pa.struct([array.type.key_field.with_nullable(True), array.type.item_field]))
        array = array.cast(entries)
    lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int64())
    offsets = np.zeros(len(array) + 1, np.int64)
    np.cumsum(fixed_values(lengths, "int64"), out=offsets[1:])
    if kinds.is_list(array.type) or kinds.is_large_list(array.type):
        low, high = (array.offsets[at].as_py() for at in (0, len(array))) if len(array) else (0, 0)
        if high - low == offsets[-1]:
            return offsets, array.values.slice(low, high - low)
    return offsets, array.flatten()


def narrow(offsets: Ints) -> pa.Array:
    """Returns offsets in 32 bits. Raises `pyarrow.ArrowInvalid` for too many elements."""
    return pa.array(offsets, pa.int64()).cast(pa.int32())


def is_text(kind: pa.DataType) -> bool:
    """Returns whether Arrow's type is text, in any layout."""
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind))


def plain(array: pa.Array) -> pa.Array:
    """Returns the same values in layouts that all libraries take: `decoded` at all depths, and without views.

    Decimals have 128 bits, dates 32, and floats 32 at least. Raises `pyarrow.ArrowInvalid` for a longer decimal.
    """
    array = decoded(array)
    kind = array.type
    if kinds.is_struct(kind) and kind.num_fields:
        members = [plain(array.field(i)) for i in range(kind.num_fields)]
        fields = [each.with_type(member.type) for each, member in zip(kind, members)]
        return pa.StructArray.from_arrays(members, fields=fields, mask=null_mask(array))
    if kinds.is_map(kind):
        offsets, entries = live_values(array)
        key, item = map(plain, entries.flatten())
        return pa.MapArray.from_arrays(narrow(offsets), key, item, mask=null_mask(array))
    if kinds.is_list(kind):
        offsets, values = live_values(array)
        return pa.ListArray.from_arrays(narrow(offsets), plain(values), mask=null_mask(array))
    if kinds.is_fixed_size_list(kind):
        values = plain(array.values[array.offset * kind.list_size : (array.offset + len(array)) * kind.list_size])
        return pa.FixedSizeListArray.from_arrays(values, kind.list_size, mask=null_mask(array))
    if kinds.is_decimal(kind):
        return array.cast(pa.decimal128(min(kind.precision, MAX_DIGITS), kind.scale))
    return array.cast(PLAIN.get(kind, kind))


def _is_encoded(field: pa.Field) -> bool:
    """Returns whether there is a dictionary in the values of this type, at any depth."""
    kind = field.type
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if kinds.is_dictionary(kind):
        return True
    return any(_is_encoded(kind.field(i)) for i in range(kind.num_fields))


def _without_views(values: pa.Array) -> pa.Array:
    if kinds.is_string_view(values.type):
        return values.cast(pa.large_string())
    return values.cast(pa.large_binary()) if kinds.is_binary_view(values.type) else values
