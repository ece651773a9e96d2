"""The warehouses that are attached to DuckDB connections, by name."""

from __future__ import annotations

import atexit
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from morrow.attachment import Attachment
from morrow.catalogs.catalog import Catalog
from morrow.engine.arguments import text
from morrow.engine.catalog.filesystem import check_warehouse
from morrow.engine.errors import InvalidArgument
from morrow.readers.execution.duckdb_relation import checked_connection

if TYPE_CHECKING:
    import duckdb

_attached: list[Attachment] = []
_lock = threading.Lock()


def attach(connection: duckdb.DuckDBPyConnection | None, warehouse: Catalog | str, name: str) -> Attachment:
    """Makes a warehouse a database of a connection; see `morrow.duckdb.attach`."""
    connection = checked_connection(connection)
    catalog = warehouse if isinstance(warehouse, Catalog) else Catalog(warehouse)
    check_warehouse(catalog._catalog)
    text(name, "the name of an attached warehouse")
    query = "SELECT 1 FROM duckdb_databases() WHERE lower(database_name) = lower(?)"
    with connection.cursor() as cursor:
        if cursor.execute(query, [name]).fetchone() is not None:
            raise InvalidArgument(f"the connection has a database {name!r} already")
    for gone in _named(connection, name):  # detached by SQL
        _forget(gone)
    made = Attachment(connection, catalog, name, _forget)
    with _lock:
        if not _attached:
            atexit.register(_detach_all)
        _attached.append(made)
    return made


def _detach_all() -> None:
    """Removes all attachments as the process ends: DuckDB complains of functions that are left in its connections."""
    with _lock:
        left, _attached[:] = list(_attached), []
    for each in left:
        each.detach()


def attachment(connection: duckdb.DuckDBPyConnection | None, name: str) -> Attachment:
    """Returns the attachment of this name. Raises `InvalidArgument` where there is none."""
    found = _named(checked_connection(connection), name)
    if not found:
        raise InvalidArgument(f"the connection has no warehouse attached as {name!r}")
    return found[-1]


def _named(connection: duckdb.DuckDBPyConnection, name: str) -> list[Attachment]:
    with _lock:
        return [each for each in _attached if each.name.lower() == name.lower() and each.is_on(connection)]


def _forget(gone: Attachment) -> None:
    """Removes what an attachment needs, whose database may be gone already."""
    with _lock, suppress(ValueError):
        _attached.remove(gone)
    gone.detach()


def detach(connection: duckdb.DuckDBPyConnection | None, name: str) -> None:
    """Removes an attached warehouse; see `morrow.duckdb.detach`."""
    _forget(attachment(connection, name))
