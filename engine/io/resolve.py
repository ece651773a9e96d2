"""From what a user typed to a file store and a path in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from morrow.engine.errors import InvalidArgument
from morrow.engine.io.local import LocalStore
from morrow.engine.io.store import FileStore

WINDOWS_DRIVE = re.compile(r"^[A-Za-z]:[\\/]")


def resolve(location: str, storage_options: Mapping[str, str] | None = None) -> tuple[FileStore, str]:
    """The store and the path within it, without a trailing slash.

    Raises:
        InvalidArgument: an empty location, or a URL scheme that no store serves.
    """
    if not location:
        raise InvalidArgument("an empty path; give the folder of a table, such as 'warehouse/db.db/orders'")
    parts = urlsplit(location)
    if WINDOWS_DRIVE.match(location) or not parts.scheme:
        return LocalStore(), str(Path(location).expanduser().absolute())
    if parts.scheme == "file":
        return LocalStore(), str(Path(unquote(parts.path)).absolute())
    from morrow.engine.io.objects import ObjectStore

    return ObjectStore.of_url(location, storage_options), parts.path.strip("/")
