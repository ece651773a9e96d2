"""Columns that are called ``array`` or ``list``, of which sqlglot takes ``"array"[1]`` for the array of 1."""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

CONSTRUCTORS = ("ARRAY", "LIST")
"""What sqlglot takes for constructors before a bracket; to DuckDB, ARRAY is one where it is not quoted."""
PLAIN = "c"
"""A name that is none."""


class Parser(DuckDB.Parser):  # type: ignore[misc, valid-type]  # sqlglot names its parser by a variable
    """DuckDB's, whose columns may have any name."""

    def _parse_bracket(self, this: Any = None) -> Any:
        name = _column_name(this)
        if name is None:
            return super()._parse_bracket(this)
        known = name.this
        name.set("this", PLAIN)
        try:
            return super()._parse_bracket(this)
        finally:
            name.set("this", known)


def _column_name(node: Any) -> exp.Identifier | None:
    """Returns the identifier of a column with the name of a constructor; None of all other nodes."""
    if not isinstance(node, (exp.Column, exp.Identifier, exp.Dot)) or node.name.upper() not in CONSTRUCTORS:
        return None
    name = node if isinstance(node, exp.Identifier) else node.expression if isinstance(node, exp.Dot) else node.this
    if not isinstance(name, exp.Identifier):
        return None
    is_part = isinstance(node, exp.Dot) or node.args.get("table") is not None
    is_column = is_part or name.args.get("quoted") or name.name.upper() != CONSTRUCTORS[0]
    return name if is_column else None
