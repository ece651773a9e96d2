"""Casts of ARRAY, MAP and ROW: to text, and member by member to another nested type."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from morrow.engine.format import types as t
from morrow.engine.schema.nested import ELEMENT, VALUE
from morrow.engine.values import replace
from morrow.readers.casts.base import Cast, apply
from morrow.readers.casts.dtypes import list_offsets, null_mask

TEXT = t.VarCharType()


def _text(array: pa.Array, type: t.DataType, cast: Cast) -> pa.Array:
    """Returns the text of an element; ``null`` for null."""
    return pc.fill_null(apply(array, replace(cast, source=type, target=TEXT)), "null")


def _joined(array: pa.Array, entries: pa.Array, brackets: str) -> pa.Array:
    lists = pa.ListArray.from_arrays(list_offsets(array), entries, mask=null_mask(array))
    return pc.binary_join_element_wise(brackets[0], pc.binary_join(lists, ", "), brackets[1], "")


def array_to_text(array: pa.Array, cast: Cast) -> pa.Array:
    """Formats ``[1, null, 3]``; the target's length is ignored."""
    return _joined(array, _text(array.values, cast.source.element, cast), "[]")


def map_to_text(array: pa.Array, cast: Cast) -> pa.Array:
    """Formats ``{a -> 1, b -> null}``; the target's length is ignored."""
    keys, values = _text(array.keys, cast.source.key, cast), _text(array.items, cast.source.value, cast)
    return _joined(array, pc.binary_join_element_wise(keys, values, " -> "), "{}")


def row_to_text(array: pa.Array, cast: Cast) -> pa.Array:
    """Formats ``{1, x, null}``: values without names; the target's length is ignored."""
    members = [_text(array.field(i), field.type, cast) for i, field in enumerate(cast.source.fields)]
    joined = pc.binary_join_element_wise(*members, ", ") if members else pa.array([""] * len(array))
    text = pc.binary_join_element_wise("{", joined, "}", "")
    return pc.if_else(array.is_valid(), text, pa.scalar(None, pa.string())) if array.null_count else text


def row_to_row(array: pa.Array, cast: Cast) -> pa.Array:
    """Casts members by field id: new ones are null, dropped ones left out, others renamed, moved and cast."""
    position = {field.id: i for i, field in enumerate(cast.source.fields)}
    members = []
    for field in cast.target.fields:
        at = position.get(field.id)
        if at is None:
            members.append(pa.nulls(len(array), field.type.arrow()))
            continue
        members.append(apply(array.field(at), cast.inside(field.name, cast.source.fields[at].type, field.type)))
    fields = list(cast.target.arrow())
    return pa.StructArray.from_arrays(members, fields=fields, mask=null_mask(array))


def array_to_array(array: pa.Array, cast: Cast) -> pa.Array:
    values = apply(array.values, cast.inside(ELEMENT, cast.source.element, cast.target.element))
    return pa.ListArray.from_arrays(list_offsets(array), values, cast.target.arrow(), mask=null_mask(array))


def map_to_map(array: pa.Array, cast: Cast) -> pa.Array:
    """Casts the values; Java refuses a change of the key type."""
    values = apply(array.items, cast.inside(VALUE, cast.source.value, cast.target.value))
    return pa.MapArray.from_arrays(
        list_offsets(array), array.keys, values, type=cast.target.arrow(), mask=null_mask(array)
    )
