"""Names as Paimon writes them: ``table``, ``table$system``, ``table$branch_dev``, ``table$branch_dev$system``."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence

import msgspec

from morrow.engine.arguments import check_text
from morrow.engine.errors import DatabaseNotFound, InvalidArgument, TableNotFound
from morrow.engine.redaction import suggest_name

MARK = "$"
SYSTEM_DATABASE = "sys"
BRANCH_PREFIX = "branch_"
THREE_PARTS = re.compile(r"\w+\.\w+\.\w+")


class ObjectName(msgspec.Struct, frozen=True):
    """The name of a table, of a branch, or of a system table of either.

    `table` may be prefixed with its database or with its folders.
    """

    table: str
    branch: str | None = None
    system: str | None = None

    def branch_or(self, given: str | None) -> str | None:
        """Return the branch in the name, or else the branch `given` separately; None for the main branch.

        Raises `InvalidArgument`: both name a branch.
        """
        if self.branch is not None and given is not None:
            raise InvalidArgument(f"branch {given!r}: the path names the branch {self.branch!r} already")
        return given if self.branch is None else self.branch


def check_new_table_name(name: str, databases: Callable[[], Container[str]]) -> None:
    """Check the name of a new table as users write it.

    Names of tables may contain dots, as in Java. But a name of three words whose first one is not a database is
    probably ``catalog.database.table``, and would create a database.

    Raises `InvalidArgument`: a name of three words whose first one is not among the `databases`.
    """
    database, table = table_name(name)
    if THREE_PARTS.fullmatch(name) and database not in databases():
        raise InvalidArgument(
            f"{name!r} has three parts, and there is no database {database!r}: a table of this catalog is "
            f"named database.table, such as {table!r}"
        )


def table_name(name: str) -> tuple[str, str]:
    """Return database and table of ``database.table``. Raises `InvalidArgument` for another form."""
    check_text(name, "the name of a table")
    database, dot, table = name.partition(".")
    if not dot or not database or not table:
        raise InvalidArgument(f"{name!r} is not a table name; write database.table")
    return database, table


def checked_name(what: str, name: str) -> str:
    """Check the name of a new database or table.

    Raises `InvalidArgument`: a name that Paimon reserves or cannot look up.
    """
    check_text(name, f"the name of a {what}")
    if not name.strip() or name != name.strip() or name.startswith(".") or MARK in name:
        raise InvalidArgument(
            f"{name!r} is not a valid name for a {what}: it must not be blank, begin with '.' or a blank, end with a "
            f"blank, or have {MARK!r} in it"
        )
    if what == "database" and name == SYSTEM_DATABASE:
        raise InvalidArgument(f"{name!r} is the database of Paimon's own tables; choose another name")
    return name


def parse_object_name(text: str) -> ObjectName:
    """Parse a name; a ``$`` before the last ``/`` is part of a folder's name.

    Raises `InvalidArgument`: more ``$`` than there are parts, or an empty part.
    """
    if not isinstance(text, str):
        raise InvalidArgument(f"the name or folder of a table is text, not {text!r}")
    folders, slash, last = text.rstrip("/").rpartition("/")
    if MARK not in last:
        return ObjectName(text)
    table, *parts = last.split(MARK)
    branch = parts.pop(0).removeprefix(BRANCH_PREFIX) if parts and parts[0].startswith(BRANCH_PREFIX) else None
    system = parts.pop(0) if parts else None
    if parts or not table or "" in (branch, system):
        raise InvalidArgument(
            f"{text!r} is not a name: write table, table$snapshots, table$branch_dev or table$branch_dev$snapshots"
        )
    return ObjectName(folders + slash + table, branch, system)


def make_missing_error(title: str, what: str, database: str, name: str, names: Sequence[str]) -> TableNotFound:
    """Return the error for a missing table, view or function (`what`) of a database, which has these `names`."""
    known, hint = ", ".join(names) or "none", suggest_name(name, names)
    return TableNotFound(
        f"{title}: there is no {what} '{database}.{name}'; {hint}the {what}s of {database} are: {known}"
    )


def make_no_database_error(title: str, name: str, databases: Sequence[str]) -> DatabaseNotFound:
    """Return the error for a missing database of a catalog, which has these `databases`."""
    known, hint = ", ".join(databases) or "none", suggest_name(name, databases)
    return DatabaseNotFound(f"{title}: there is no database {name!r}; {hint}the databases are: {known}")
