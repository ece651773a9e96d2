"""`morrow.spark.attach`: the tables of a warehouse as temporary views, for ``spark.sql``.

Temporary views do not belong to databases, so the table ``db.orders`` of the catalog ``pm`` is the view
``pm_db_orders``. A view is a `morrow.spark.read` of the newest snapshot, and shows it until the catalog is attached
again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from morrow.catalogs.catalog import Catalog
from morrow.engine.catalog.filesystem import FilesystemCatalog, check_warehouse
from morrow.engine.catalog.names import parse_object_name
from morrow.engine.errors import AlreadyExists, InvalidArgument, MorrowError
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.io.resolve import Roots, resolve_roots
from morrow.engine.redaction import get_logger
from morrow.session import Verify
from morrow.spark.expressions import quote_name
from morrow.spark.reading.read import to_dataframe

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MIN_THREADED_TABLES = 8
"""The minimum tables to plan in several threads: Spark's planner takes tens of milliseconds for each."""
MAX_THREADS = 8

log = get_logger(__name__)


class Views(dict[str, str]):
    """The names of views by table: ``{"db.orders": "pm_db_orders"}``.

    `skipped` has the errors of the tables without a view, which cannot be read.
    """

    def __init__(self, names: Mapping[str, str], skipped: Mapping[str, MorrowError]) -> None:
        super().__init__(names)
        self.skipped = dict(skipped)


@dataclass(frozen=True)
class State:
    """The state that a view shows. The view is recreated only if the state differs."""

    path: str
    branch: str
    snapshot: Snapshot | None
    schema: int


@dataclass(frozen=True)
class Access:
    """The arguments of `morrow.open` for the tables of a warehouse."""

    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    allowed_roots: tuple[str, ...] = ()
    verify: Verify | None = None

    def catalog(self, warehouse: str | os.PathLike[str] | Catalog) -> Catalog:
        if isinstance(warehouse, Catalog):
            if self != Access():
                raise InvalidArgument("a Catalog has its storage_options, allowed_roots and verify: give it alone")
            return warehouse
        return Catalog(
            warehouse, storage_options=self.storage_options, allowed_roots=self.allowed_roots, verify=self.verify
        )


def get_access(catalog: Catalog) -> Access:
    """Return the arguments to open the tables of a catalog that is a folder; none for other catalogs."""
    files = catalog._catalog
    if not isinstance(files, FilesystemCatalog):
        return Access()
    verify: Verify | None = "pages" if files.store.checks_pages else None
    return Access(files.store.storage_options or None, files.allowed_roots, verify)


@dataclass(frozen=True)
class AttachedCatalog:
    """The views that `attach` has made under one name in a session.

    A state is None if it does not determine the rows.
    """

    catalog: Catalog | None
    views: Mapping[str, str]
    states: Mapping[str, State | None]
    access: Access = Access()


_ATTACHED: WeakKeyDictionary[SparkSession, dict[str, AttachedCatalog]] = WeakKeyDictionary()


def list_attached(spark: SparkSession) -> Mapping[str, AttachedCatalog]:
    """Return the catalogs that are attached to a session, by name."""
    return _ATTACHED.get(spark, {})


def attach(
    spark: SparkSession,
    warehouse: str | os.PathLike[str] | Catalog,
    as_: str = "pm",
    databases: str | Sequence[str] | None = None,
    tables: str | Sequence[str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    allowed_roots: Roots = (),
    verify: Verify | None = None,
) -> Views:
    """Create a temporary view of every table of a warehouse: ``spark.sql("SELECT * FROM pm_db_orders")``.

    A view shows the newest snapshot at the time it is made. Attaching again under the same name updates the views, and
    drops views of tables that are gone or no longer selected; unchanged tables cost almost nothing then. Names with
    characters other than letters, digits and ``_`` need backticks in SQL, as anywhere in Spark.

    Args:
        spark: the session, to which the views belong.
        warehouse: the folder or URL of the catalog, or a `morrow.Catalog`.
        as_: the prefix of the views' names, and the catalog's name in `morrow.spark.call`.
        databases: only the tables of these databases; None: of all databases.
        tables: only these tables, as ``database.table`` or ``database.table$branch_<name>``; None: all.
        storage_options, allowed_roots, verify: as for `morrow.spark.read`, for all tables. `morrow.spark.call` uses the
            first two for tables named ``pm.database.table``.

    Returns: the names of the views by table. Tables that cannot be read are left out unless named in `tables`;
        `Views.skipped` has the errors.

    Raises:
        DatabaseNotFound, TableNotFound: no such warehouse, database or table.
        InvalidArgument: two tables would have the same view name (Spark ignores case).
        AlreadyExists: a view of that name exists and was not made by `attach`.
        MorrowError: as `morrow.spark.read`, for tables named in `tables`.
        After an error the views are as before.
    """
    if not isinstance(as_, str) or not as_.strip():
        raise InvalidArgument(f"as_ is what the names of views begin with, such as 'pm', not {as_!r}")
    access = Access(storage_options, resolve_roots(allowed_roots), verify)
    catalog = access.catalog(warehouse)
    names = _check_names(tables) if tables is not None else _list_tables(catalog, databases)
    before = list_attached(spark).get(as_, AttachedCatalog(None, {}, {}))
    views = _view_names(as_, names)
    own = _own_views(spark, views.values(), before.views.values())
    known = {name: state for name, state in before.states.items() if before.views[name].lower() in own}
    if before.access != access:
        known = {}  # views hold the credentials they were made with, which may have expired
    found = _find_all(spark, catalog, names, known)
    skipped = {name: one for name, one in found.items() if isinstance(one, MorrowError)}
    if tables is not None and skipped:
        raise next(iter(skipped.values()))
    for name, error in skipped.items():
        log.warning("%s gets no view: %s", name, error)
    made = {name: one for name, one in found.items() if isinstance(one, _Found)}
    for name, one in made.items():
        if one.frame is not None:
            one.frame.createOrReplaceTempView(quote_name(views[name]))
    names_of = Views({name: views[name] for name in made}, skipped)
    _drop(spark, set(before.views.values()) - set(names_of.values()))
    states = {name: one.state for name, one in made.items()}
    _ATTACHED.setdefault(spark, {})[as_] = AttachedCatalog(catalog, names_of, states, access)
    return names_of


def detach(spark: SparkSession, as_: str = "pm") -> None:
    """Drop the views that `attach` has made under this name.

    Raises:
        InvalidArgument: nothing is attached under this name.
    """
    known = _ATTACHED.get(spark, {})
    if as_ not in known:
        raise InvalidArgument(f"nothing is attached as {as_!r}; attached are: {', '.join(known) or 'none'}")
    _drop(spark, known.pop(as_).views.values())


def _list_tables(catalog: Catalog, databases: str | Sequence[str] | None) -> list[str]:
    check_warehouse(catalog._catalog)
    chosen = catalog.databases() if databases is None else _to_list(databases)
    return [f"{database}.{table}" for database in chosen for table in catalog.tables(database)]


def _check_names(tables: str | Sequence[str]) -> list[str]:
    names = list(dict.fromkeys(_to_list(tables)))
    for name in names:
        if parse_object_name(name).system is not None:
            raise InvalidArgument(f"{name!r} is a system table; read it by morrow.spark.read")
    return names


def _to_list(given: str | Sequence[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def _view_names(as_: str, tables: Iterable[str]) -> dict[str, str]:
    """Return the name of the view of each table. Raises `InvalidArgument` for a name of two tables."""
    views: dict[str, str] = {}
    taken: dict[str, str] = {}
    for table in tables:
        database, _, name = table.partition(".")
        view = f"{as_}_{database}_{name}"
        other = taken.setdefault(view.lower(), table)
        if other != table:
            raise InvalidArgument(
                f"the tables {other} and {table} would both be the view {view}; attach one of them by tables=[...], or "
                "each under a name of its own (as_=...)"
            )
        views[table] = view
    return views


def _own_views(spark: SparkSession, views: Iterable[str], own: Iterable[str]) -> set[str]:
    """Return the views in `own` that still exist, in lower case. Raises `AlreadyExists` for views made by others."""
    there = {row.viewName.lower(): row.viewName for row in spark.sql("SHOW VIEWS").collect() if row.isTemporary}
    mine = {view.lower() for view in own}
    for view in views:
        if view.lower() in there and view.lower() not in mine:
            raise AlreadyExists(
                f"there is a temporary view {there[view.lower()]} already, which attach has not made; drop it, or "
                "attach under another name (as_=...)"
            )
    return mine & set(there)


@dataclass(frozen=True)
class _Found:
    """The current state of a table; without a frame if its view already shows this state."""

    state: State | None
    frame: DataFrame | None


def _find_all(
    spark: SparkSession,
    catalog: Catalog,
    names: Sequence[str],
    known: Mapping[str, State | None],
) -> dict[str, _Found | MorrowError]:
    """Return the current state of each table, or the error that prevents reading it. Spark's planner takes most of the
    time, on one core for each table.
    """

    def found(name: str) -> _Found | MorrowError:
        try:
            return _find_view(spark, catalog, name, known.get(name))
        except MorrowError as error:
            return error

    if len(names) < MIN_THREADED_TABLES:
        return {name: found(name) for name in names}
    with ThreadPoolExecutor(min(MAX_THREADS, os.cpu_count() or 1)) as threads:
        return dict(zip(names, threads.map(found, names)))


def _find_view(spark: SparkSession, catalog: Catalog, name: str, known: State | None) -> _Found:
    parts = parse_object_name(name)
    table = catalog.table(parts.table, branch=parts.branch)
    metadata = table._metadata
    schema = metadata.latest_schema()
    # With a fallback branch, or a tag named by the table's options, the newest snapshot does not determine the rows.
    state = None
    options = metadata.options(schema)
    if options.other_branch is None and not options.travel:
        state = State(table.path, metadata.branch, metadata.latest_snapshot(), schema.id)
    if state is not None and state == known:
        return _Found(state, None)
    return _Found(state, to_dataframe(table.scan(), spark))


def _drop(spark: SparkSession, views: Iterable[str]) -> None:
    for view in sorted(views):
        spark.catalog.dropTempView(view)  # accepts the name unquoted
