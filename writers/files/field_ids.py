"""Ids of the parts of nested columns, in the schemas of Parquet and ORC files.

Members of a ROW have ids of their own. An element of an ARRAY, and a key and a value of a MAP, get one from the id of
the column (or member) they are in and from how many lists and maps are around them: a range of a thousand for each
column, up or (keys) down from a base.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

NESTED_ID_BASE = (2**31 - 1) // 4
DEPTHS = 1 << 10


@dataclass(frozen=True)
class Place:
    """Where a type is: in which column, how many lists and maps deep, inside of anything at all."""

    field_id: int
    where: str
    depth: int = 0
    nested: bool = False

    @property
    def inside(self) -> Place:
        """The place of elements, keys and values."""
        return replace(self, depth=self.depth + 1, nested=True)

    def member(self, field_id: int) -> Place:
        """The place of a ROW's member, where depths are counted anew."""
        return Place(field_id, self.where, nested=True)

    @property
    def element_id(self) -> int:
        """The id of an element or value here."""
        return NESTED_ID_BASE + self.field_id * DEPTHS + self.depth

    @property
    def key_id(self) -> int:
        """The id of a key here."""
        return NESTED_ID_BASE - self.field_id * DEPTHS - self.depth
