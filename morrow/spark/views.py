"""`morrow.spark.attach`: the tables of a warehouse as temporary views, for ``spark.sql``.

Temporary views have no databases, so that the table ``db.orders`` of the catalog ``pm`` is the view ``pm_db_orders``.
Each is `morrow.spark.read` of the newest snapshot, which the view keeps to until it is attached anew.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from morrow.catalog import Catalog
from morrow.engine.catalog.names import object_name
from morrow.engine.errors import AlreadyExists, InvalidArgument, MorrowError
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.io.resolve import resolve
from morrow.engine.plan.metadata import TableMetadata
from morrow.spark.reading import read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LEAST_IN_THREADS = 8
"""Tables from which several are planned at once: Spark's planner takes tens of milliseconds for each."""
MOST_THREADS = 8
FALLBACK = "scan.fallback-branch"

log = logging.getLogger(__name__)


class Views(dict[str, str]):
    """The names of views by those of their tables: ``{"db.orders": "pm_db_orders"}``.

    `skipped` tells, by table, why it has no view: it cannot be read.
    """

    def __init__(self, names: Mapping[str, str], skipped: Mapping[str, MorrowError]) -> None:
        super().__init__(names)
        self.skipped = dict(skipped)


@dataclass(frozen=True)
class State:
    """What a view shows: as long as nothing of it is another, the view need not be made anew."""

    path: str
    branch: str
    snapshot: Snapshot | None
    schema: int


@dataclass(frozen=True)
class AttachedCatalog:
    """What `attach` has made under one name in a session. `states` are None where they do not tell all."""

    warehouse: str
    views: Mapping[str, str]
    states: Mapping[str, State | None]
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)


_ATTACHED: WeakKeyDictionary[SparkSession, dict[str, AttachedCatalog]] = WeakKeyDictionary()


def attached_catalogs(spark: SparkSession) -> Mapping[str, AttachedCatalog]:
    """The catalogs that are attached to a session, by name."""
    return _ATTACHED.get(spark, {})


def attach(
    spark: SparkSession,
    warehouse: str | os.PathLike[str],
    as_: str = "pm",
    databases: str | Sequence[str] | None = None,
    tables: str | Sequence[str] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Views:
    """Make a temporary view of every table of a warehouse: ``spark.sql("SELECT * FROM pm_db_orders")``.

    A view shows the snapshot that was the newest when it was made. Attaching again under the same name shows the
    newest, and drops the views of tables that are gone, or not asked for any more; tables that nobody has changed cost
    next to nothing then. A name with other characters than letters, digits and ``_`` stands in backticks in SQL, as
    anywhere in Spark.

    Args:
        spark: the session; views are seen in it alone.
        warehouse: the folder or URL of the catalog.
        as_: what the names of views begin with, and what `morrow.spark.call` knows the catalog by.
        databases: only the tables of these; None: of all.
        tables: only these, as ``database.table`` or ``database.table$branch_<name>``; None: all.
        storage_options: as for `morrow.open`.

    Returns: the names of the views by table. Of tables that were not asked for by name, those that cannot be read
        are left out; `Views.skipped` has the errors.

    Raises:
        DatabaseNotFound, TableNotFound: there is no such warehouse, database or table.
        InvalidArgument: a name that two tables would have (Spark does not tell upper from lower case).
        AlreadyExists: there is a view of that name which `attach` has not made.
        MorrowError: as `morrow.spark.read`, for tables that were asked for by name.
        After an error the views are as before.
    """
    if not isinstance(as_, str) or not as_.strip():
        raise InvalidArgument(f"as_ is what the names of views begin with, such as 'pm', not {as_!r}")
    catalog = Catalog(warehouse, storage_options=storage_options)
    names = _named(tables) if tables is not None else _all_tables(catalog, databases)
    before = attached_catalogs(spark).get(as_, AttachedCatalog("", {}, {}))
    views = _view_names(as_, names)
    own = _own_views(spark, views.values(), before.views.values())
    known = {name: state for name, state in before.states.items() if before.views[name].lower() in own}
    if before.storage_options != storage_options:
        known = {}  # views hold the options that they were made with, and with them credentials that may have ended
    found = _all_found(spark, catalog, names, storage_options, known)
    skipped = {name: one for name, one in found.items() if isinstance(one, MorrowError)}
    if tables is not None and skipped:
        raise next(iter(skipped.values()))
    for name, error in skipped.items():
        log.warning("%s gets no view: %s", name, error)
    made = {name: one for name, one in found.items() if isinstance(one, _Found)}
    for name, one in made.items():
        if one.frame is not None:
            one.frame.createOrReplaceTempView(quoted(views[name]))
    names_of = Views({name: views[name] for name in made}, skipped)
    _drop(spark, set(before.views.values()) - set(names_of.values()))
    states = {name: one.state for name, one in made.items()}
    _ATTACHED.setdefault(spark, {})[as_] = AttachedCatalog(catalog.warehouse, names_of, states, storage_options)
    return names_of


def detach(spark: SparkSession, as_: str = "pm") -> None:
    """Drop the views that `attach` has made under this name.

    Raises:
        InvalidArgument: nothing is attached under it.
    """
    known = _ATTACHED.get(spark, {})
    if as_ not in known:
        raise InvalidArgument(f"nothing is attached as {as_!r}; attached are: {', '.join(known) or 'none'}")
    _drop(spark, known.pop(as_).views.values())


def _all_tables(catalog: Catalog, databases: str | Sequence[str] | None) -> list[str]:
    chosen = catalog.databases() if databases is None else _texts(databases)
    return [f"{database}.{table}" for database in chosen for table in catalog.tables(database)]


def _named(tables: str | Sequence[str]) -> list[str]:
    names = list(dict.fromkeys(_texts(tables)))
    for name in names:
        if object_name(name).system is not None:
            raise InvalidArgument(f"{name!r} is a system table; read it by morrow.spark.read")
    return names


def _texts(given: str | Sequence[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def _view_names(as_: str, tables: Iterable[str]) -> dict[str, str]:
    """The name of the view of each table. Raises `InvalidArgument` where two have the same."""
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
    """Those made before that are still there, in lower case. Raises `AlreadyExists` where others have made one."""
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
    """A table as it is now; without a frame where its view shows that already."""

    state: State | None
    frame: DataFrame | None


def _all_found(
    spark: SparkSession,
    catalog: Catalog,
    names: Sequence[str],
    storage_options: Mapping[str, str] | None,
    known: Mapping[str, State | None],
) -> dict[str, _Found | MorrowError]:
    """What each table holds now, or why it cannot be read. Spark's planner takes most of the time, on a core each."""

    def found(name: str) -> _Found | MorrowError:
        try:
            return _found(spark, catalog, name, storage_options, known.get(name))
        except MorrowError as error:
            return error

    if len(names) < LEAST_IN_THREADS:
        return {name: found(name) for name in names}
    with ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1)) as threads:
        return dict(zip(names, threads.map(found, names)))


def _found(
    spark: SparkSession,
    catalog: Catalog,
    name: str,
    storage_options: Mapping[str, str] | None,
    known: State | None,
) -> _Found:
    parts = object_name(name)
    path = catalog.table(parts.table).path
    metadata = TableMetadata(*resolve(path, storage_options))
    metadata = metadata if parts.branch is None else metadata.on_branch(parts.branch)
    schema = metadata.latest_schema()
    # With a fallback branch, or a tag that the table's options name, the newest snapshot does not tell what is read.
    state = None
    if FALLBACK not in schema.options and not metadata.options(schema).travel:
        state = State(path, metadata.branch, metadata.latest_snapshot(), schema.id)
    if state is not None and state == known:
        return _Found(state, None)
    return _Found(state, read(spark, path, branch=parts.branch, storage_options=storage_options))


def _drop(spark: SparkSession, views: Iterable[str]) -> None:
    for view in sorted(views):
        spark.catalog.dropTempView(view)  # which takes names as they are


def quoted(name: str) -> str:
    """A name as SQL has it, whatever is in it."""
    return f"`{name.replace('`', '``')}`"
