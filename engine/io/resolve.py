"""Resolution of a user's location to a file store and a path within it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias, cast
from urllib.parse import unquote, urlsplit

from morrow.engine.arguments import check_mapping, check_text
from morrow.engine.errors import InvalidArgument
from morrow.engine.io.local import LocalStore
from morrow.engine.io.storage_options import HADOOP_SCHEMES, ROLE_PREFIX
from morrow.engine.io.store import FileStore

SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):")
Roots: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"
IS_WINDOWS = os.name == "nt"
WINDOWS_DRIVE = re.compile(r"^[A-Za-z]:[\\/]")
LOCAL = "file:"
VERIFY_PAGES = "pages"


def resolve(
    location: str,
    storage_options: Mapping[str, str] | None = None,
    verify: str | None = None,
    filesystem: object = None,
) -> tuple[FileStore, str]:
    """Return the store of a location and the path within the store, without a trailing slash.

    Args:
        storage_options: with obstore's names, or as Paimon spells them (see `morrow.engine.io.storage_options`).
        filesystem: an fsspec file system that has the location.
        verify: `VERIFY_PAGES` for a store that checks pages, see `morrow.open`.

    Raises:
        InvalidArgument: an empty location, an unsupported URL scheme, or an unknown `verify`.
    """
    check_mapping(storage_options, "storage_options")
    for part in chain.from_iterable((storage_options or {}).items()):
        check_text(part, "each name and value in storage_options")
    check_verify(verify)
    store, path = (
        _resolve_location(location, _translate_options(storage_options, location))
        if filesystem is None
        else _resolve_in_filesystem(location, storage_options, filesystem)
    )
    cast(Any, store).checks_pages = verify is not None
    return store, path


def _translate_options(options: Mapping[str, str] | None, location: str) -> Mapping[str, str] | None:
    if not options:
        return options
    from morrow.engine.io.storage_options import translate_options

    return translate_options(options, location)


def _resolve_in_filesystem(
    location: str, storage_options: Mapping[str, str] | None, filesystem: object
) -> tuple[FileStore, str]:
    from morrow.engine.io.fsspec_store import wrap_filesystem

    if storage_options:
        raise InvalidArgument("a filesystem has its options: leave out storage_options")
    store = wrap_filesystem(filesystem)
    found = location.partition("://")[2] if "://" in location else location
    if not found.strip("/"):
        raise InvalidArgument(f"{location!r} is no folder of the filesystem")
    return store, (_expand_path(found) if store.is_local else found.rstrip("/"))


def to_location(path: str | os.PathLike[str], what: str = "path") -> str:
    """Return a user's folder or URL as text. Raises `InvalidArgument` for any other value."""
    if isinstance(path, (str, os.PathLike)):
        found = os.fspath(path)
        if isinstance(found, str):
            return check_text(found, what)
    raise InvalidArgument(f"{what} is a folder or URL, as text or a path, not {path!r}")


def unescape_location(location: str) -> str:
    """Convert a location from a Java catalog, whose URLs are not percent-encoded (``file:/a b%``), for `resolve`."""
    if location.startswith(LOCAL):
        return "/" + location.removeprefix(LOCAL).strip("/")
    return location.rstrip("/")


def check_verify(verify: object) -> None:
    """Raise `InvalidArgument` for an unknown `verify`."""
    if verify not in (None, VERIFY_PAGES):
        raise InvalidArgument(f"verify={verify!r} is not known; give 'pages', or None to leave page checksums alone")


def get_verify(store: FileStore) -> str | None:
    """Return the `verify` with which another process recreates this store."""
    return VERIFY_PAGES if store.checks_pages else None


def _resolve_location(location: str, storage_options: Mapping[str, str] | None) -> tuple[FileStore, str]:
    if not location or "\0" in location:
        what = "a path with a NUL byte" if location else "an empty path"
        raise InvalidArgument(f"{what}; give the folder of a table, such as 'warehouse/db.db/orders'")
    scheme = SCHEME.match(location)
    if scheme is None or not _is_url(location):
        return LocalStore(), _expand_path(location)
    if scheme[1].lower() == "file":
        return LocalStore(), Path(_remove_drive_slash(unquote(urlsplit(location).path))).absolute().as_posix()
    if scheme[1].lower() in HADOOP_SCHEMES:
        from morrow.engine.io.hdfs import HdfsStore

        return HdfsStore.of_url(location, storage_options)
    from morrow.engine.io.object_store import ObjectStore

    # Keys are taken literally: '?', '#' and '%' are ordinary characters.
    key = location.partition("://")[2].partition("/")[2]
    if storage_options and any(name.startswith(ROLE_PREFIX) for name in storage_options):
        from morrow.engine.io.temporary_credentials import open_with_role

        return cast(FileStore, open_with_role(location, storage_options)), key.strip("/")
    return ObjectStore.of_url(location, storage_options), key.strip("/")


def resolve_roots(roots: Roots) -> tuple[str, ...]:
    """Return the folders and URLs that a caller gives (one or several), with absolute folders.

    Raises:
        InvalidArgument: an item is empty, or neither a folder nor a URL.
    """
    given = (roots,) if isinstance(roots, (str, os.PathLike)) else roots
    if not isinstance(given, Sequence) or not all(isinstance(root, (str, os.PathLike)) for root in given):
        raise InvalidArgument(f"allowed_roots is a list of folders or URLs, not {roots!r}")
    texts = [os.fspath(root) for root in given]
    if not all(isinstance(text, str) and text.strip() and "\0" not in text for text in texts):
        raise InvalidArgument(f"allowed_roots is a list of folders or URLs, not {roots!r}")
    return tuple(text if _is_url(text) else _expand_path(text) for text in texts)


def _is_url(location: str) -> bool:
    return SCHEME.match(location) is not None and WINDOWS_DRIVE.match(location) is None


def _remove_drive_slash(path: str) -> str:
    """Return the path of a ``file:`` URL without its slash before a drive of Windows."""
    return path[1:] if IS_WINDOWS and WINDOWS_DRIVE.match(path[1:]) else path


def _expand_path(path: str) -> str:
    try:
        return Path(path).expanduser().absolute().as_posix()
    except RuntimeError as error:
        raise InvalidArgument(f"{path}: {error}; write the home folder out") from error
    except FileNotFoundError as error:
        raise InvalidArgument(f"{path}: the current folder is gone; change to another, or give a whole path") from error
