"""The input of a merge in SQL: a relation of versions, its columns and their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from morrow.engine.errors import ColumnNotFound, Unsupported
from morrow.engine.format.schema import SEQUENCE_NUMBER, VALUE_KIND
from morrow.engine.format.types import DataField
from morrow.engine.merge.spec import MergeSpec
from morrow.readers.expressions.sql import quote_identifier

KIND = quote_identifier(VALUE_KIND)
INSERTS = f"{KIND} IN (0, 2)"
RETRACTIONS = f"{KIND} IN (1, 3)"
UPDATE_BEFORE = f"{KIND} = 1"
DELETES = f"{KIND} = 3"


@dataclass(frozen=True)
class MergeQuery:
    """SQL text, and the columns (or parts of the merge) left to Morrow: with any, DuckDB cannot run it."""

    text: str
    left_out: tuple[str, ...] = ()

    @property
    def runnable(self) -> bool:
        return not self.left_out


@dataclass(frozen=True)
class Table:
    """The relation to merge; all names are quoted.

    `retractions`: whether any version may be one. Without, the SQL is much shorter.
    """

    spec: MergeSpec
    fields: tuple[DataField, ...]
    relation: str
    key_names: tuple[str, ...]
    retractions: bool

    @classmethod
    def of(
        cls, spec: MergeSpec, fields: Sequence[DataField], relation: str, primary_key: Sequence[str], retractions: bool
    ) -> Table:
        names = [field.name for field in fields]
        if len({name.casefold() for name in names}) < len(names):
            raise Unsupported(
                f"SQL on columns that differ only in case ({', '.join(sorted(names))})",
                hint="DuckDB takes them for one",
            )
        merged = {column.name for column in spec.columns}
        outside = tuple(name for name in names if name not in merged) if spec.folds else spec.key
        key = tuple(primary_key) or outside
        missing = [name for name in (*key, *spec.sequence, *merged) if name not in names]
        if missing:
            raise ColumnNotFound(f"the merge needs the column {missing[0]!r}, which is not among {', '.join(names)}")
        return cls(spec, tuple(fields), quote_identifier(relation), key, retractions)

    @property
    def columns(self) -> list[str]:
        return [quote_identifier(field.name) for field in self.fields]

    @property
    def taken(self) -> frozenset[str]:
        """The columns' names, casefolded because DuckDB ignores case."""
        return frozenset(field.name.casefold() for field in self.fields)

    @property
    def reserved(self) -> tuple[str, ...]:
        """Names that no helper column or common table expression may take."""
        return (self.relation[1:-1].replace('""', '"'), SEQUENCE_NUMBER, VALUE_KIND)

    @property
    def key(self) -> str:
        return ", ".join(map(quote_identifier, self.key_names))

    @property
    def heading(self) -> str:
        return str(self.spec).split("\n", 1)[0]

    def age(self, *, newest_first: bool = False) -> str:
        """Returns the order of versions, oldest first by default; nulls are the oldest in any sort order."""
        down = self.spec.descending != newest_first
        nulls = "NULLS LAST" if newest_first else "NULLS FIRST"
        sequence = [f"{quote_identifier(name)}{' DESC' if down else ''} {nulls}" for name in self.spec.sequence]
        return ", ".join([*sequence, quote_identifier(SEQUENCE_NUMBER) + (" DESC" if newest_first else "")])
