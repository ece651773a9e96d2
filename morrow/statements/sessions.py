"""The session of `Catalog.sql`: its catalogs, the current one, the current database, and options by SET.

Options apply to the reads and writes of later statements, as by `Table.with_options`: ``scan.snapshot-id`` to all
tables, ``paimon.database.table.scan.snapshot-id`` to one. A session ends with its `Catalog`; nothing is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, TypeVar

from morrow.engine.catalog.settings import CATALOG_TYPE
from morrow.engine.errors import AlreadyExists, DatabaseNotFound, InvalidArgument, Unsupported
from morrow.engine.options import Options
from morrow.engine.options.table_options import OPTIONS, find_present_key
from morrow.engine.options.table_settings import ANY, match_settings, split_setting, strip_prefix
from morrow.engine.redaction import suggest_name
from morrow.engine.structs import replace
from morrow.statements.statement import (
    CommentColumn,
    CreateCatalog,
    DropCatalog,
    Explain,
    Name,
    ResetOption,
    SetOption,
    Show,
    Statement,
    Use,
    format_name,
)
from morrow.writers.target import READ_OPTION_KEYS, WRITE_OPTION_KEYS, check_write_options

if TYPE_CHECKING:
    import duckdb

    from morrow.statements.context import Context, Warehouse
    from morrow.statements.sources import CatalogSources

DEFAULT_CATALOG = "default_catalog"
"""The name of the catalog that the session began with, as in Flink."""
DEFAULT_DATABASE = "default"
FORM = "paimon.<database>.<table>.<option>"

S = TypeVar("S", bound=Statement)


@dataclass
class SqlSession:
    """The state that one statement leaves to the next.

    Args:
        sources: the catalogs by name. open_catalog: opens a catalog by its options.
        current: the name of the current catalog. database: the database of the last USE.
        settings: the values of SET by their keys.
    """

    sources: dict[str, CatalogSources]
    open_catalog: Callable[[Mapping[str, str]], CatalogSources]
    current: str = DEFAULT_CATALOG
    database: str | None = None
    settings: dict[str, str] = field(default_factory=dict)

    def find_catalog(self, name: str) -> CatalogSources:
        """Return a catalog by its name. Raises `InvalidArgument`."""
        if name not in self.sources:
            hint = suggest_name(name, self.sources)
            raise InvalidArgument(f"there is no catalog {name!r}; {hint}there are {', '.join(self.sources)}")
        return self.sources[name]

    def select_options(self, catalog: Warehouse, table: str) -> dict[str, str]:
        """Return the options of SET for the table ``database.table`` of a catalog."""
        if not self.settings:
            return {}
        given = {strip_prefix(key): value for key, value in self.settings.items()}
        name = next((name for name, each in self.sources.items() if each.catalog is catalog), ANY)
        own = tuple(table.split(".", 1))
        return {option: given[key] for option, key in match_settings(given, (name, *own), own).items()}

    def select_write_options(self, catalog: Warehouse, table: str) -> dict[str, str]:
        """Return the options of SET for writes of a table."""
        given = self.select_options(catalog, table)
        return {key: value for key, value in given.items() if find_present_key(key) in WRITE_OPTION_KEYS}


def set_option(context: Context, statement: SetOption) -> duckdb.DuckDBPyRelation:
    """Set an option of the session, or show one or all of them."""
    settings = context.session.settings
    if statement.key is None:
        return context.make_rows(key=list(settings), value=list(settings.values()))
    if statement.value is None:
        if statement.key not in settings:
            _split_key(statement.key)
            raise InvalidArgument(f"SET {statement.key}: the option is not set; write SET '{statement.key}' = 'value'")
        return context.make_rows(key=[statement.key], value=[settings[statement.key]])
    _check_setting(context.session, statement.key, statement.value)
    settings[statement.key] = statement.value
    return context.make_rows(key=[statement.key], value=[statement.value])


def _check_setting(session: SqlSession, key: str, value: str) -> None:
    """Refuse an unknown option, a value that does not parse, and an option that belongs to stored tables."""
    names, option = _split_key(key)
    if len(names) == 3 and names[0] != ANY:
        session.find_catalog(names[0])
    elif len(names) not in (0, 2, 3):
        raise InvalidArgument(f"SET {key}: name the table; write {FORM}")
    check_write_options([option], READ_OPTION_KEYS | WRITE_OPTION_KEYS)
    Options({option: value}, f"SET {key}").get(OPTIONS[find_present_key(option)])


def _split_key(key: str) -> tuple[tuple[str, ...], str]:
    split = split_setting(strip_prefix(key))
    if split is None:
        hint = suggest_name(strip_prefix(key), OPTIONS)
        others = "set options of DuckDB by its connection; those of Flink and Spark have no effect here"
        raise Unsupported(f"SET {key}, which is no option of reads or writes of tables,", hint=hint + others)
    return split


def reset_option(context: Context, statement: ResetOption) -> duckdb.DuckDBPyRelation:
    """Remove one or all options of the session."""
    if statement.key is None or statement.key.upper() == "ALL":
        context.session.settings.clear()
        return context.did("reset all options")
    context.session.settings.pop(statement.key, None)
    return context.did(f"reset {statement.key}")


def create_catalog(context: Context, statement: CreateCatalog) -> duckdb.DuckDBPyRelation:
    """Open a catalog by its options, under a name of the session."""
    sources, name = context.session.sources, statement.catalog
    if name in sources:
        if statement.if_not_exists:
            return context.did(f"left the catalog {name}, which exists")
        raise AlreadyExists(f"the session has a catalog {name!r}; DROP CATALOG removes it from the session")
    if not statement.options:
        hint = f"WITH ('{CATALOG_TYPE.key}' = 'paimon', 'warehouse' = '...')"
        raise InvalidArgument(f"CREATE CATALOG {name} needs options: {hint}")
    sources[name] = context.session.open_catalog(statement.options)
    return context.did(f"created the catalog {name}")


def drop_catalog(context: Context, statement: DropCatalog) -> duckdb.DuckDBPyRelation:
    """Remove a catalog from the session. Its tables stay."""
    session, name = context.session, statement.catalog
    if statement.if_exists and name not in session.sources:
        return context.did(f"there was no catalog {name}")
    session.find_catalog(name)
    if name == session.current or name == DEFAULT_CATALOG:
        what = "the current catalog; USE another one first" if name == session.current else "the session's own catalog"
        raise InvalidArgument(f"DROP CATALOG {name}: it is {what}")
    del session.sources[name]
    return context.did(f"removed the catalog {name} from the session")


def use(context: Context, statement: Use) -> duckdb.DuckDBPyRelation:
    """Choose the current catalog, database, or both (``USE catalog.database``)."""
    name, session = statement.database, context.session
    is_catalog = statement.word == "CATALOG"
    if not is_catalog and statement.word is None and len(name) == 1 and name[0] in session.sources:
        is_catalog = name[0] not in context.catalog.databases()
    if is_catalog:
        _use_catalog(context, name[0])
        databases = context.catalog.databases()
        context.database = DEFAULT_DATABASE if DEFAULT_DATABASE in databases else None
        return context.did(f"use catalog {name[0]}")
    if len(name) > 2:
        raise InvalidArgument(f"USE {format_name(name)}: write USE catalog.database")
    catalog = session.find_catalog(name[0]).catalog if len(name) == 2 else context.catalog
    if name[-1] not in catalog.databases():
        known = "" if len(name) == 2 else f"; catalogs are {', '.join(session.sources)}"
        raise DatabaseNotFound(f"there is no database {format_name(name)}{known}")
    if len(name) == 2:
        _use_catalog(context, name[0])
    context.database = name[-1]
    return context.did(f"use {format_name(name)}")


def _use_catalog(context: Context, name: str) -> None:
    found = context.session.find_catalog(name)
    context.session.current = name
    context.catalog, context.sources = found.catalog, found


LENGTHS: Mapping[str, int] = {
    **dict.fromkeys(("table", "to", "view", "source", "procedure"), 2),
    "database": 1,
    "path": 3,
}
"""The field of a statement with a name -> the parts of a name without its catalog."""
FORMS = ("the name of a catalog", "database", "database.table", "database.table.column")
"""The form of a name by its number of parts."""
OF_DATABASES = ("databases", "tables", "views", "functions", "table extended")
"""What SHOW shows of a database, or of a catalog."""


def resolve_catalog(context: Context, statement: S) -> tuple[Context, S]:
    """Return the statement without the catalog in its names, and the context with this catalog.

    Queries inside of the statement still read the current catalog.

    Raises `InvalidArgument` for an unknown catalog, and for names in two catalogs.
    """
    if isinstance(statement, Use):
        return context, statement
    if isinstance(statement, Explain):
        inner, plain = resolve_catalog(context, statement.statement)
        return inner, replace(statement, statement=plain)
    found: dict[str, Name] = {}
    for each in fields(statement):
        name = getattr(statement, each.name)
        most = _count_parts(statement, each.name)
        if most is not None and isinstance(name, tuple) and len(name) > most:
            found[each.name] = name
    catalogs = {name[0] for name in found.values()}
    if not found:
        return context, statement
    for field_name, name in found.items():
        most = _count_parts(statement, field_name) or 0
        if len(name) > most + 1 or name[0] not in context.session.sources:
            form = "CALL sys.name(...)" if field_name == "procedure" else FORMS[most]
            known = f"catalogs of this session are {', '.join(context.session.sources)}"
            raise InvalidArgument(
                f"{statement.kind} {format_name(name)}: the name has {len(name)} parts; write {form}; {known}"
            )
    if len(catalogs) > 1:
        raise InvalidArgument(f"{statement.kind} of two catalogs: {' and '.join(sorted(catalogs))}")
    [catalog] = catalogs
    there = context.session.find_catalog(catalog)
    plain_names = {field_name: name[1:] for field_name, name in found.items()}
    return replace(context, catalog=there.catalog, prefix=(catalog,)), replace(statement, **plain_names)


def _count_parts(statement: Statement, field_name: str) -> int | None:
    """Return how many parts a name has without its catalog; None for other fields."""
    if isinstance(statement, Show) and field_name == "name":
        if statement.what == "databases":
            return 0
        return 1 if statement.what in OF_DATABASES else 2
    if field_name == "path" and not isinstance(statement, CommentColumn):
        return None
    return LENGTHS.get(field_name)
