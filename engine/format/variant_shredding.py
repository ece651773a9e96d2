"""Shredded VARIANT: parts of the values in typed columns of a file, and the rest as bytes.

A column of the file is a group. Only the group of a whole column has metadata::

    group      metadata BINARY, value BINARY (optional), typed_value (optional)
    typed      a number, text, ...: a value of that type; `value` is null
               a LIST of groups: the elements of an array; `value` is null
               a group of groups by name: members of an object, each absent if its value and typed_value are null;
               `value` is an object of the other members, or null
    value      any other value, as the bytes of a VARIANT; null and absent members: `value` and typed_value are null

Columns are rebuilt and taken apart level by level, for all rows at once.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from morrow.engine.errors import CorruptFile
from morrow.engine.format.arrow_buffers import read_validity
from morrow.engine.format.types import ArrayType, DataType, MapType, RowType, VariantType, has_type
from morrow.engine.format.variant import OBJECT
from morrow.engine.format.variant_arrays import Names, Nodes, VariantColumn
from morrow.engine.format.variant_building import build_containers, build_variants, encode_leaves
from morrow.engine.format.variant_bytes import scatter

Ints: TypeAlias = npt.NDArray[np.int64]

VALUE, METADATA, TYPED = "value", "metadata", "typed_value"
ORDER = (VALUE, METADATA)


def is_shredded(stored: pa.DataType, kind: DataType) -> bool:
    """Return whether a column of this Arrow type in a file has variants in another layout than `VariantType.arrow`."""
    if isinstance(kind, VariantType):
        return not pa.types.is_struct(stored) or tuple(member.name for member in stored) != ORDER
    if not has_type(kind, VariantType):
        return False
    if isinstance(kind, RowType) and pa.types.is_struct(stored):
        members = {member.name: member.type for member in stored}
        return any(each.name in members and is_shredded(members[each.name], each.type) for each in kind.fields)
    if isinstance(kind, MapType) and pa.types.is_map(stored):
        return is_shredded(stored.item_type, kind.value)
    if isinstance(kind, ArrayType) and (pa.types.is_list(stored) or pa.types.is_large_list(stored)):
        return is_shredded(stored.value_type, kind.element)
    return False


def rebuild(array: pa.Array) -> pa.Array:
    """Return a shredded column as a column of variants. Raises `CorruptFile` for members that contradict the layout."""
    present = np.flatnonzero(read_validity(array))
    chosen = array if len(present) == len(array) else array.take(pa.array(present))
    members = {chosen.type.field(i).name for i in range(chosen.type.num_fields)}
    if METADATA not in members or not members <= {VALUE, METADATA, TYPED}:
        raise CorruptFile("a VARIANT", f"a column with the members {', '.join(sorted(members))}")
    metadata = chosen.field(METADATA).cast(pa.large_binary())
    if metadata.null_count:
        raise CorruptFile("a VARIANT", "its metadata is null")
    value = _Rebuilder(metadata).rebuild(chosen, np.arange(len(present)))
    if value.null_count:
        raise CorruptFile("a VARIANT", "a value is missing")
    columns = [scatter([(present, each)], len(array), pa.large_binary()) for each in (value, metadata)]
    return build_variants(*columns)


class _Rebuilder:
    """The values of groups, with the metadata of their rows."""

    def __init__(self, metadata: pa.Array) -> None:
        self._metadata = metadata
        self._names = Names.of(metadata)

    def rebuild(self, group: pa.Array, rows: Ints) -> pa.Array:
        """Return the bytes of the values of a group (large binary); null for absent members."""
        import pyarrow.compute as pc

        members = {group.type.field(i).name: i for i in range(group.type.num_fields)}
        value = pa.nulls(len(group), pa.large_binary())
        if VALUE in members:
            value = group.field(members[VALUE]).cast(pa.large_binary())
        if TYPED not in members:
            return value
        typed = group.field(members[TYPED])
        is_typed = read_validity(typed)
        places = np.flatnonzero(is_typed)
        some = typed if len(places) == len(typed) else typed.take(pa.array(places))
        if pa.types.is_struct(typed.type):
            made = self._rebuild_objects(some, value.take(pa.array(places)), rows[places])
        elif pa.types.is_list(typed.type) or pa.types.is_large_list(typed.type):
            made = self._rebuild_arrays(some, rows[places])
        else:
            made = encode_leaves(some)
        if len(places) == len(group):
            return made
        return pc.if_else(pa.array(is_typed), scatter([(places, made)], len(group), pa.large_binary()), value)

    def _rebuild_arrays(self, lists: pa.Array, rows: Ints) -> pa.Array:
        counts = lists.value_lengths().cast(pa.int64()).to_numpy(zero_copy_only=False)
        members = self.rebuild(lists.flatten(), np.repeat(rows, counts))
        if members.null_count:
            raise CorruptFile("a VARIANT", "an element of an array is missing")
        return build_containers(counts, members, np.zeros(len(counts), np.bool_))

    def _rebuild_objects(self, objects: pa.Array, rest: pa.Array, rows: Ints) -> pa.Array:
        owners: list[Ints] = []
        numbers: list[Ints] = []
        blobs: list[pa.Array] = []
        names: list[pa.Array] = []
        for i in range(objects.type.num_fields):
            name = objects.type.field(i).name
            found = self.rebuild(objects.field(i), rows)
            owner = np.flatnonzero(read_validity(found))
            number = self._names.find(name, rows[owner])
            if (number < 0).any():
                raise CorruptFile("a VARIANT", f"the metadata of a row lacks the name {name!r}")
            owners.append(owner)
            numbers.append(number)
            blobs.append(found.take(pa.array(owner)))
            names.append(pa.array([name], pa.large_string()).take(pa.array(np.zeros(len(owner), np.int64))))
        others = np.flatnonzero(read_validity(rest))
        if len(others):
            column, nodes, owner = self._list_members(rest, others, rows)
            owners.append(others[owner])
            blobs.append(column.raw(nodes))
            metadata = column.names.metadata[nodes.rows]
            numbers.append(nodes.names - column.names.firsts[metadata])
            names.append(column.names.texts.take(pa.array(nodes.names)))
        return _join_members(len(objects), owners, numbers, blobs, names)

    def _list_members(self, rest: pa.Array, others: Ints, rows: Ints) -> tuple[VariantColumn, Nodes, Ints]:
        """Return the members of the objects in `value`, and the places of their owners in `others`."""
        metadata = self._metadata.take(pa.array(rows[others]))
        column = VariantColumn(build_variants(rest.take(pa.array(others)), metadata))
        roots = column.roots()
        basic, _ = column.headers(roots)
        if (basic != OBJECT).any():
            raise CorruptFile("a VARIANT", "a value beside the members of an object is not an object")
        counts, nodes = column.members(roots)
        return column, nodes, np.repeat(np.arange(len(others)), counts)


def _join_members(
    length: int, owners: list[Ints], numbers: list[Ints], blobs: list[pa.Array], names: list[pa.Array]
) -> pa.Array:
    """Return objects of members that are given in several parts."""
    owner = np.concatenate([np.zeros(0, np.int64), *owners])
    order = np.argsort(owner, kind="stable")
    owner = owner[order]
    number = np.concatenate([np.zeros(0, np.int64), *numbers])[order]
    members = pa.concat_arrays([pa.array([], pa.large_binary()), *blobs]).take(pa.array(order))
    texts = pa.concat_arrays([pa.array([], pa.large_string()), *names]).take(pa.array(order))
    rank = rank_names(texts)
    by_name = np.lexsort((rank, owner))
    if ((owner[by_name][1:] == owner[by_name][:-1]) & (rank[by_name][1:] == rank[by_name][:-1])).any():
        raise CorruptFile("a VARIANT", "an object has a member twice")
    counts = np.bincount(owner, minlength=length)
    return build_containers(counts, members, np.ones(length, np.bool_), number, by_name)


def rank_names(texts: pa.Array) -> Ints:
    """Return numbers that sort names by their bytes; equal names have equal numbers."""
    encoded = texts.dictionary_encode()
    distinct = [each.encode() for each in encoded.dictionary.to_pylist()]
    order = sorted(range(len(distinct)), key=distinct.__getitem__)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    codes = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)
    return ranks[codes] if len(codes) else codes


def rebuild_within(array: pa.Array, kind: DataType) -> pa.Array:
    """Return a column of a file with its shredded variants rebuilt, at any depth."""
    if isinstance(kind, VariantType):
        return rebuild(array)
    if not has_type(kind, VariantType):
        return array
    nulls = array.is_null() if array.null_count else None
    if isinstance(kind, RowType):
        given = {array.type.field(i).name: array.field(i) for i in range(array.type.num_fields)}
        fields = [each for each in kind.fields if each.name in given]
        members = [rebuild_within(given[each.name], each.type) for each in fields]
        return pa.StructArray.from_arrays(members, [each.name for each in fields], mask=nulls)
    if isinstance(kind, MapType):
        lists = array.cast(pa.list_(pa.struct([array.type.key_field.with_nullable(True), array.type.item_field])))
        entries = lists.flatten()
        item = rebuild_within(entries.field(1), kind.value)
        offsets = _count_offsets(lists)
        return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), entries.field(0), item, mask=nulls)
    assert isinstance(kind, ArrayType)
    values = rebuild_within(array.flatten(), kind.element)
    return pa.ListArray.from_arrays(pa.array(_count_offsets(array), pa.int32()), values, mask=nulls)


def _count_offsets(lists: pa.Array) -> Ints:
    lengths = lists.value_lengths().fill_null(0).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return np.concatenate([[0], np.cumsum(lengths)])
