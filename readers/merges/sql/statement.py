"""SQL text: a statement of common table expressions: one line per column, comments behind them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

INDENT = "  "

_NO_NAME = re.compile(r"[^a-z0-9]+")


class Names:
    """Names for helper columns and common table expressions that none of the table's columns has.

    They need no quotes: ASCII letters, digits and underscores, first a letter. DuckDB does not tell letters by case.
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
        last = len(self.items) - 1
        columns = [_item(item, "" if number == last else ",") for number, item in enumerate(self.items)]
        lines = [line for text in columns for line in text.split("\n")]
        return ["SELECT", *(INDENT + line for line in lines), f"FROM {self.source}", *_split(self.clauses)]


def statement(steps: Sequence[tuple[str, Select]], result: Select) -> str:
    """``WITH <name> AS (<step>), ... <result>``; the text ends without semicolon or newline."""
    parts = [f"{name} AS (\n{_indented(step)}\n)" for name, step in steps]
    head = f"WITH {', '.join(parts)}\n" if parts else ""
    return head + "\n".join(result.lines())


def comment(text: str) -> str:
    """Text as a comment of one line: names in it may hold line breaks, which would end the comment."""
    return "-- " + "".join(character if character.isprintable() else " " for character in text)


def _item(item: Item, comma: str) -> str:
    named = item.expression if item.name is None else f"{item.expression} AS {item.name}"
    return f"{named}{comma}  {comment(item.comment)}" if item.comment else named + comma


def _indented(step: Select) -> str:
    return "\n".join(INDENT + line for line in step.lines())


def _split(clauses: Sequence[str]) -> list[str]:
    return [line for clause in clauses for line in clause.split("\n")]
