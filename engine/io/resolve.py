"""From what a user typed to a file store and a path in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from morrow.engine.errors import InvalidArgument
from morrow.engine.io.local import LocalStore
from morrow.engine.io.store import FileStore

SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):")
WINDOWS_DRIVE = re.compile(r"^[A-Za-z]:[\\/]")


def resolve(location: str, storage_options: Mapping[str, str] | None = None) -> tuple[FileStore, str]:
    """The store and the path within it, without a trailing slash.

    Raises:
        InvalidArgument: an empty location, or a URL scheme that no store serves.
    """
    if not location or "\0" in location:
        what = "a path with a NUL byte" if location else "an empty path"
        raise InvalidArgument(f"{what}; give the folder of a table, such as 'warehouse/db.db/orders'")
    scheme = SCHEME.match(location)
    if scheme is None or WINDOWS_DRIVE.match(location):
        return LocalStore(), _expanded(location)
    if scheme[1].lower() == "file":
        return LocalStore(), str(Path(unquote(urlsplit(location).path)).absolute())
    from morrow.engine.io.objects import ObjectStore

    # Keys are taken as they stand: '?', '#' and '%' mean nothing special in them.
    key = location.partition("://")[2].partition("/")[2]
    return ObjectStore.of_url(location, storage_options), key.strip("/")


def _expanded(path: str) -> str:
    try:
        return str(Path(path).expanduser().absolute())
    except RuntimeError as error:
        raise InvalidArgument(f"{path}: {error}; write the home folder out") from error
