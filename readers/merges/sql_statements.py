"""SQL statements of common table expressions, one line per column with comments, and the input of a merge in SQL."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from morrow.engine.errors import ColumnNotFound, Unsupported
from morrow.engine.format.schema import SEQUENCE_NUMBER, VALUE_KIND
from morrow.engine.format.types import DataField
from morrow.engine.merge.spec import MergeSpec
from morrow.readers.expressions.sql import quote_identifier

INDENT = "  "

_NO_NAME = re.compile(r"[^a-z0-9]+")
_LINE = re.compile(r"""(?:"[^"]*"|'[^']*'|[^"'\n])+""")


class Names:
    """Names for helper columns and common table expressions that differ from all of the table's columns.

    They need no quotes: ASCII letters, digits and underscores, first a letter. DuckDB ignores the case of letters.
    """

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = {name.casefold() for name in taken}

    def fresh(self, wanted: str) -> str:
        stem = _NO_NAME.sub("_", wanted.lower()).strip("_")
        stem = stem if stem[:1].isalpha() else f"column_{stem}"
        name, number = stem, 2
        while name in self._taken:
            name, number = f"{stem}_{number}", number + 1
        self._taken.add(name)
        return name


@dataclass(frozen=True)
class Item:
    """One column of a select list; `name` is ready for SQL, None if the expression names itself."""

    expression: str
    name: str | None = None
    comment: str = ""


@dataclass(frozen=True)
class Select:
    """A query: `items` from `source`, and the clauses that follow, in SQL's order."""

    items: Sequence[Item]
    source: str
    clauses: Sequence[str] = ()

    def lines(self) -> list[str]:
        commas = [","] * (len(self.items) - 1) + [""]
        columns = [line for item, comma in zip(self.items, commas) for line in _format_item(item, comma)]
        clauses = [line for clause in self.clauses for line in _split_lines(clause)]
        return ["SELECT", *(INDENT + line for line in columns), f"FROM {self.source}", *clauses]


def format_statement(steps: Sequence[tuple[str, Select]], result: Select) -> str:
    """Format ``WITH <name> AS (<step>), ... <result>``; the text ends without semicolon or newline."""
    parts = [f"{name} AS (\n{_format_step(step)}\n)" for name, step in steps]
    head = f"WITH {', '.join(parts)}\n" if parts else ""
    return head + "\n".join(result.lines())


def format_comment(text: str) -> str:
    """Format text as a comment of one line: names in it may hold line breaks, which would end the comment."""
    return "-- " + "".join(character if character.isprintable() else " " for character in text)


def _format_item(item: Item, comma: str) -> list[str]:
    *lines, last = _split_lines(item.expression if item.name is None else f"{item.expression} AS {item.name}")
    return [*lines, last + comma + (f"  {format_comment(item.comment)}" if item.comment else "")]


def _split_lines(sql: str) -> list[str]:
    """Return the lines of SQL; quoted text keeps its line breaks."""
    return _LINE.findall(sql)


def _format_step(step: Select) -> str:
    return "\n".join(INDENT + line for line in step.lines())


KIND = quote_identifier(VALUE_KIND)
INSERTS = f"{KIND} IN (0, 2)"
RETRACTIONS = f"{KIND} IN (1, 3)"
UPDATE_BEFORE = f"{KIND} = 1"
DELETES = f"{KIND} = 3"


@dataclass(frozen=True)
class MergeQuery:
    """SQL text, and the columns (or parts of the merge) left to Morrow; if there are any, DuckDB cannot run it."""

    text: str
    left_out: tuple[str, ...] = ()

    @property
    def runnable(self) -> bool:
        return not self.left_out


@dataclass(frozen=True)
class Table:
    """The relation to merge; all names are quoted.

    `retractions`: whether any version may be a retraction; if not, the SQL is much shorter.
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
        """The names that helper columns and common table expressions must not take."""
        return (self.relation[1:-1].replace('""', '"'), SEQUENCE_NUMBER, VALUE_KIND)

    @property
    def key(self) -> str:
        return ", ".join(map(quote_identifier, self.key_names))

    @property
    def heading(self) -> str:
        return str(self.spec).split("\n", 1)[0]

    def age(self, *, newest_first: bool = False) -> str:
        """Return the order of versions, oldest first by default; nulls are the oldest in any sort order."""
        down = self.spec.descending != newest_first
        nulls = "NULLS LAST" if newest_first else "NULLS FIRST"
        sequence = [f"{quote_identifier(name)}{' DESC' if down else ''} {nulls}" for name in self.spec.sequence]
        return ", ".join([*sequence, quote_identifier(SEQUENCE_NUMBER) + (" DESC" if newest_first else "")])
