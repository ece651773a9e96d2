"""What is wrong with SQL that does not parse, in words of SQL."""

from __future__ import annotations

import re

from sqlglot.errors import ParseError, SqlglotError

CLASS = re.compile(r"<class '[\w.]*\.(\w+)'>|<(\w+)[^>]*>")
"""Classes and tokens of the parser in its messages."""
MISSING = "Required keyword"


def problem_of(error: SqlglotError) -> str:
    """Returns what follows "does not parse": where, and what the parser found, without names of its classes."""
    first = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
    told = str(first.get("description") or error).splitlines()[0]
    if CLASS.search(told) or told.startswith(MISSING):
        told = "something is missing, or stands where it cannot"
    where = f" at line {first['line']}, column {first['col']}" if first.get("line") else ""
    near = f", near {first['highlight']!r}" if first.get("highlight") else ""
    return f"{where}{near}: {told}"
