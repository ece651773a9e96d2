"""Decoding of Arrow arrays that are extension types, dictionaries, run-end encoded or lists of other layouts."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from morrow.readers.casts.dtypes import list_offsets, null_mask


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
    if kinds.is_list(kind) and _is_encoded(kind.value_field):
        values = decoded(array.values)
        return pa.ListArray.from_arrays(list_offsets(array), values, mask=null_mask(array))
    if kinds.is_map(kind) and (_is_encoded(kind.key_field) or _is_encoded(kind.item_field)):
        key, item = decoded(array.keys), decoded(array.items)
        return pa.MapArray.from_arrays(list_offsets(array), key, item, mask=null_mask(array))
    if kinds.is_large_list(kind) or kinds.is_list_view(kind) or kinds.is_large_list_view(kind):
        return decoded(array.cast(pa.list_(kind.value_field)))
    return array


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
