"""The file store of a user's location: resolved, confined to the table's folders, and locked if it needs a lock.

File names in metadata, and links in a table's folders, may come from an untrusted source if the table was copied.
Reads are checked by their callers, not here. Files that are written, moved or removed must be, after resolving all
links, below the table's folder or below folders that the caller allows. Writes elsewhere raise `UnsafePath`. Removals
elsewhere keep the file and log a warning, so that one refused file does not stop the removal of the others.

Links are resolved once and the operation uses the resolved path, so a link created in between does not matter.
The last segment is never resolved: removing or replacing a link does not change its target.

A `LockedStore` acquires the lock of a catalog to create a file, if the inner store cannot create files atomically.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast
from urllib.parse import unquote, urlsplit

from morrow.engine.arguments import check_mapping, check_text
from morrow.engine.errors import FileMissing, InvalidArgument, StorageError, UnclearOutcome, UnsafePath, Unsupported
from morrow.engine.io.local import LocalStore
from morrow.engine.io.storage_options import HADOOP_SCHEMES, ROLE_PREFIX
from morrow.engine.io.store import FileStore, write_hint
from morrow.engine.redaction import get_logger

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

    Raises `InvalidArgument`: an empty location, an unsupported URL scheme, or an unknown `verify`.
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
        raise InvalidArgument(f"{location!r} is not a folder of the filesystem")
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

    Raises `InvalidArgument`: an item is empty, or neither a folder nor a URL.
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


HINT = "if you trust it, name its folder in allowed_roots"

log = get_logger(__name__)


class ConfinedStore:
    """A `FileStore` that reads like `inner`, and changes only files below `roots`. Created by `confine`."""

    def __init__(self, inner: FileStore, roots: Sequence[str]) -> None:
        self.inner, self.roots = inner, tuple(roots)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # looked up by pickle and copy before there is a store
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConfinedStore) and (self.inner, self.roots) == (other.inner, other.roots)

    def __hash__(self) -> int:
        return hash((self.inner, self.roots))

    # Writes: the path must be below a root

    def create(self, path: str, data: bytes) -> bool:
        return self.inner.create(self._inside(path), data)

    def write(self, path: str, data: bytes) -> None:
        self.inner.write(self._inside(path), data)

    @contextmanager
    def output(self, path: str) -> Iterator[BinaryIO]:
        with self.inner.output(self._inside(path)) as stream:
            yield stream

    def local_target(self, path: str) -> str | None:
        return self.inner.local_target(self._inside(path))

    def write_hint(self, path: str, data: bytes) -> None:
        write_hint(self.inner, self._inside(path), data)

    def make_folder(self, folder: str) -> None:
        self.inner.make_folder(self._inside(f"{folder.rstrip('/')}/.").rpartition("/")[0])

    def move(self, source: str, target: str) -> None:
        self.inner.move(self._inside(source), self._inside(target))

    def move_folder(self, source: str, target: str) -> None:
        self.inner.move_folder(self._inside(source), self._inside(target))

    # Removals: files outside of the roots are kept

    def delete(self, path: str) -> bool:
        return any(self.inner.delete(found) for found in self._removable([path]))

    def delete_many(self, paths: Sequence[str]) -> None:
        self.inner.delete_many(self._removable(paths))

    def discard(self, paths: Sequence[str]) -> None:
        self.inner.discard(self._removable(paths))

    def remove_empty_folder(self, folder: str) -> bool:
        return any(self.inner.remove_empty_folder(found) for found in self._removable([folder]))

    def delete_folder(self, folder: str) -> None:
        """Remove a folder and everything in it; remove a link without its target."""
        for found in self._removable([folder]):
            if is_link(self.inner, found):
                place = _resolve_links(self.inner, found)
                log.warning("%s: the link is removed, what is in %s stays", folder, place)
                self.inner.delete(found)
            else:
                self.inner.delete_folder(found)

    def _inside(self, path: str) -> str:
        """Return `path` with its links resolved. Raises `UnsafePath` if the result is outside of the roots."""
        return check_inside(self.inner, path, self.roots)

    def _removable(self, paths: Sequence[str]) -> list[str]:
        """Return the resolved paths of the files that may be removed; the others are logged."""
        found, left = _split_by_roots(self.inner, paths, self.roots)
        if left:
            path, place = left[0]
            others = f" and {len(left) - 1} more" if len(left) > 1 else ""
            log.warning(
                "%s: %s%s left where it is: it is in %s, outside of the table's folder; %s",
                *(self.inner.url(self.roots[0]), path, others, place, HINT),
            )
        return found


def confine(store: FileStore, roots: Sequence[str]) -> FileStore:
    """Return a store that changes only files below `roots`: the table's folder first, then other allowed folders."""
    inner = store.inner if isinstance(store, ConfinedStore) else store
    return cast("FileStore", ConfinedStore(inner, roots))


def check_inside(store: FileStore, path: str, roots: Sequence[str]) -> str:
    """Return the path with all links resolved, except in its last segment.

    Raises `UnsafePath`: the resolved path is not below any of these roots.
    """
    found, left = _split_by_roots(store, [path], roots)
    if left:
        raise UnsafePath(
            f"{path}: this is in {left[0][1]}, outside of the table's folder {store.url(roots[0])}; nothing was "
            f"changed; {HINT}"
        )
    return found[0]


def is_inside(store: FileStore, path: str, roots: Sequence[str]) -> bool:
    """Return whether the path, with its links resolved, is below one of these roots."""
    return not _split_by_roots(store, [path], roots)[1]


def is_link(store: FileStore, path: str) -> bool:
    return store.is_local and Path(path).is_symlink()


def _split_by_roots(
    store: FileStore, paths: Sequence[str], roots: Sequence[str]
) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the resolved paths below the roots, and the other paths with their folders."""
    reals = [_resolve_root(store, root).rstrip("/") for root in roots]
    inside: dict[str, tuple[str, bool]] = {}
    found, left = list[str](), list[tuple[str, str]]()
    for path in paths:
        folder, slash, name = path.rpartition("/")
        if folder not in inside:
            place = _resolve_below(store, folder or slash, roots, reals) if slash else ""
            inside[folder] = place, any(not r or place == r or place.startswith(f"{r}/") for r in reals)
        place, allowed = inside[folder]
        whole = path if place == folder else f"{place.rstrip('/')}/{name}"
        # The parent folder of a root is outside.
        if allowed or whole in reals:
            found.append(whole)
        else:
            left.append((path, place))
    return found, left


def _resolve_links(store: FileStore, path: str) -> str:
    """Return the path with all links resolved; unchanged in object stores."""
    return os.path.realpath(path) if store.is_local else path


def _resolve_root(store: FileStore, root: str) -> str:
    """Return the root with all links resolved, from a cache while it is still the same folder."""
    if not store.is_local:
        return root
    real = _resolve_cached(root)
    try:
        if os.path.samestat(os.stat(root), os.stat(real)):  # noqa: PTH116  # takes a third of the time of resolving
            return real
    except OSError:
        pass  # the folder does not exist yet, or was removed
    _resolve_cached.cache_clear()
    return os.path.realpath(root)


@lru_cache(maxsize=256)
def _resolve_cached(root: str) -> str:
    return os.path.realpath(root)


def _resolve_below(store: FileStore, folder: str, roots: Sequence[str], reals: Sequence[str]) -> str:
    """Return the folder with all links resolved; below a resolved root, only the other segments are checked."""
    for root, real in zip(roots, reals):
        if store.is_local and folder.startswith(root) and (place := _join_without_links(real, folder[len(root) :])):
            return place
    return _resolve_links(store, folder)


def _join_without_links(real: str, tail: str) -> str | None:
    """Return the resolved path and a tail (empty, or a slash and segments); None if the tail has to be resolved."""
    segments = tail.split("/")
    if segments[0] or not {"", ".", ".."}.isdisjoint(segments[1:]):
        return None
    place = real
    for segment in segments[1:]:
        place = f"{place}/{segment}"
        try:
            mode = os.lstat(place).st_mode
        except (FileNotFoundError, NotADirectoryError):
            break  # a missing file is not a link
        except OSError:
            return None
        if stat.S_ISLNK(mode):
            return None
    return real + tail


Lock: TypeAlias = Callable[[], AbstractContextManager[Callable[[], None]]]
"""Holds the lock within the block; yields a function that raises `StorageError` if the lock may have been lost."""


class LockedStore:
    """A `FileStore` like `inner`, except that `create` holds a lock that all writers of the table share."""

    def __init__(self, inner: FileStore, lock: Lock) -> None:
        self.inner, self.lock = inner, lock

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # looked up by pickle and copy before there is a store
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LockedStore) and self.inner == other.inner

    def __hash__(self) -> int:
        return hash(self.inner)

    def create(self, path: str, data: bytes) -> bool:
        """Create a file as `FileStore.create` does: atomically by the inner store, or else under the lock."""
        with self.lock() as check:
            try:
                return self.inner.create(path, data)
            except Unsupported:
                if self.inner.exists(path):
                    return False
                check()
                return self._written(path, data)

    def _written(self, path: str, data: bytes) -> bool:
        try:
            self.inner.write(path, data)
        except StorageError as error:
            try:
                if self.inner.read(path) == data:
                    return True
            except (FileMissing, StorageError):
                pass
            raise UnclearOutcome(f"{path}: {error}; whether the file was created is not known, look for it") from error
        return True


def lock_creation(store: FileStore, lock: Lock) -> FileStore:
    """Return the store with file creation under a lock."""
    return cast(FileStore, LockedStore(store, lock))
