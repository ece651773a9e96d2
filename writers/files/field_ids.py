"""Ids of the parts of nested columns, in the schemas of Parquet and ORC files.

Members of a ROW have ids of their own. The ids of an ARRAY's element and a MAP's key and value follow from the id of
the column (or member) they are in and from the number of lists and maps around them: a range of a thousand for each
column, up or (keys) down from a base.
"""

from __future__ import annotations

from dataclasses import dataclass

from morrow.engine.values import replace

NESTED_ID_BASE = (2**31 - 1) // 4
DEPTHS = 1 << 10


@dataclass(frozen=True)
class Place:
    """The position of a type: its column, the number of lists and maps around it, and whether it is nested at all."""

    field_id: int
    where: str
    depth: int = 0
    nested: bool = False

    @property
    def inside(self) -> Place:
        """The place of elements, keys and values."""
        return replace(self, depth=self.depth + 1, nested=True)

    def member(self, field_id: int) -> Place:
        """Returns the place of a ROW's member, where depths start anew."""
        return Place(field_id, self.where, nested=True)

    @property
    def element_id(self) -> int:
        """The id of an element or value here."""
        return NESTED_ID_BASE + self.field_id * DEPTHS + self.depth

    @property
    def key_id(self) -> int:
        """The id of a key here."""
        return NESTED_ID_BASE - self.field_id * DEPTHS - self.depth
