"""SQL text: a statement of common table expressions, one line per column, with trailing comments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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
    """One column of a select list; `name` is ready for SQL, None where the expression names itself."""

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
        columns = [line for item, comma in zip(self.items, commas) for line in _item(item, comma)]
        clauses = [line for clause in self.clauses for line in _lines(clause)]
        return ["SELECT", *(INDENT + line for line in columns), f"FROM {self.source}", *clauses]


def statement(steps: Sequence[tuple[str, Select]], result: Select) -> str:
    """Formats ``WITH <name> AS (<step>), ... <result>``; the text ends without semicolon or newline."""
    parts = [f"{name} AS (\n{_indented(step)}\n)" for name, step in steps]
    head = f"WITH {', '.join(parts)}\n" if parts else ""
    return head + "\n".join(result.lines())


def comment(text: str) -> str:
    """Formats text as a comment of one line: names in it may hold line breaks, which would end the comment."""
    return "-- " + "".join(character if character.isprintable() else " " for character in text)


def _item(item: Item, comma: str) -> list[str]:
    *lines, last = _lines(item.expression if item.name is None else f"{item.expression} AS {item.name}")
    return [*lines, last + comma + (f"  {comment(item.comment)}" if item.comment else "")]


def _lines(sql: str) -> list[str]:
    """Returns the lines of SQL; quoted text keeps its line breaks."""
    return _LINE.findall(sql)


def _indented(step: Select) -> str:
    return "\n".join(INDENT + line for line in step.lines())
