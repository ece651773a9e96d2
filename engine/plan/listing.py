"""What small listings and hints of a folder say: ids, tables, names."""

from __future__ import annotations

import errno

from morrow.engine.errors import FileMissing, StorageError
from morrow.engine.format.paths import DATABASE_SUFFIX, TablePaths, file_id, numbered
from morrow.engine.io.store import FileStore
from morrow.engine.telling import did_you_mean

MOST_TABLES = 20
"""The most tables that a message names."""
MOST_LOOKED_AT = 100
"""The most folders that are looked into for them."""


def read_hint(store: FileStore, path: str) -> int | None:
    """Returns the id in a hint file, None when it does not exist, is not a file, or holds no id."""
    try:
        return file_id(store.read(path).strip())
    except FileMissing:
        return None
    except StorageError as error:
        if error.errno == errno.EISDIR:
            return None
        raise


def ids_in(store: FileStore, folder: str, prefix: str) -> list[int]:
    """Returns the ids in the names of the folder's files that begin with `prefix`, ascending."""
    found = (numbered(status.name, prefix) for status in store.list(folder) if not status.is_dir)
    return sorted(number for number in found if number is not None)


def _folders(store: FileStore, folder: str) -> list[str]:
    return sorted(each.name for each in store.list(folder) if each.is_dir)


def _joined(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}" if folder else name  # a bucket's own root is empty


def near_folder(store: FileStore, root: str) -> str:
    """Returns ``did you mean 'orders'? ``: of the folders beside one that is not there, or of the databases."""
    parent, _, name = root.rstrip("/").rpartition("/")
    above, _, database = parent.rpartition("/")
    try:
        if beside := _folders(store, parent):
            return did_you_mean(name, beside)
        return did_you_mean(database, [each for each in _folders(store, above) if each.endswith(DATABASE_SUFFIX)])
    except StorageError:  # what is above a table need not be open to its readers
        return ""


def tables_below(store: FileStore, root: str) -> list[str]:
    """Returns the first tables of the folder if it is a database or a warehouse, as paths within it."""
    folders = _folders(store, root)
    inner = [name for name in folders if name.endswith(DATABASE_SUFFIX)][:MOST_LOOKED_AT]
    below = [f"{name}/{each}" for name in inner for each in _folders(store, _joined(root, name))]
    places = (*folders, *below)[:MOST_LOOKED_AT]
    found = [name for name in places if store.is_dir(TablePaths(_joined(root, name)).schema_dir)]
    return found if len(found) <= MOST_TABLES else [*found[:MOST_TABLES], "..."]
