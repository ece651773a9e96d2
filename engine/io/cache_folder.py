"""A cache of values made from immutable files, in a folder that all processes share.

The folder has one file for each entry: a header with the digest of the key and a checksum, then the value. Entries
are written under a temporary name and renamed. Entries that are damaged, truncated, of another version or of another
user count as missing and are removed. A folder that cannot be used disables the cache. File names are digests, so they
contain no paths, keys or secrets.

Settings: ``MORROW_CACHE=off`` (no folder), ``MORROW_CACHE_DIR``, ``MORROW_CACHE_SIZE`` (bytes, 1 GiB by default).
"""

from __future__ import annotations

import hashlib
import mmap
import os
import stat
import struct
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path

import msgspec

SWITCH, FOLDER, SIZE = "MORROW_CACHE", "MORROW_CACHE_DIR", "MORROW_CACHE_SIZE"
OFF = frozenset(("off", "0", "false", "no"))
CAPACITY = 1 << 30
LARGEST_SHARE = 8
"""An entry larger than 1/8 of the folder's capacity is not stored."""
LEFT = 0.8
"""The fraction of the capacity that remains used after the least recently used entries are evicted."""

FORMAT = 2
"""The format version, incremented when the layout or the contents of entries change."""
MAGIC = b"MorrowC\n"
HEAD = struct.Struct("<8sI32sQI")
"""The header: magic bytes, format version, digest of the key, length and checksum of the value."""
ENTRY, UNFINISHED = ".entry", ".new"
HITS = "hits"
"""The file whose size counts the cache hits of all processes: each hit appends one byte."""
LARGE = 1 << 20
"""Values of at least this size get preallocated memory, and the faster checksum."""
SUMMED = 1 << 13
"""Bytes per row of the table over which the checksum of a large value is computed."""
ABANDONED = 3600.0
"""Seconds after which an unfinished file counts as abandoned."""
MAX_WAITING = 16
"""Maximum number of entries that wait to be written. Further entries are not stored."""


def compute_digest(*parts: object) -> bytes:
    """Return the key of a value made from these parts, which must be distinguishable by `repr`."""
    return hashlib.blake2b(
        repr((FORMAT, sys.byteorder, *parts)).encode(errors="surrogatepass"), digest_size=32
    ).digest()


class Contents(msgspec.Struct, frozen=True):
    """The contents of a folder: the number of entries, their bytes, and the number of cache hits."""

    entries: int
    size: int
    hits: int


class CacheFolder(msgspec.Struct, eq=False):
    """A cache in the folder `path`, of at most `capacity` bytes. Safe between threads and processes."""

    path: Path
    capacity: int
    _held: int | None = None
    """Bytes in the folder when it was last listed, plus the bytes written since."""

    def get(self, key: bytes) -> memoryview | None:
        """Return the value of a key; None without a valid entry."""
        place = self._place(key)
        try:
            if not self._is_own():
                return None
            head, value = self._read(place)
        except OSError:
            return None
        if not _is_whole(head, value, key):
            value = None
        with suppress(OSError):
            if value is None:
                place.unlink()
                return None
            os.utime(place)
            self._count()
        return value

    def _read(self, place: Path) -> tuple[bytes, memoryview | None]:
        """Return the header, and the value in separate memory."""
        # Without O_NONBLOCK, opening a named pipe would wait for a writer.
        flags = (getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
        handle = os.open(place, os.O_RDONLY | sum(flags))
        with os.fdopen(handle, "rb", buffering=0) as file:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or not _is_own(status):
                return b"", None
            head = file.read(HEAD.size)
            value = _reserve_memory(status.st_size - len(head))
            read = 0
            while read < len(value) and (count := file.readinto(value[read:])):
                read += count
            return head, value[:read]

    def put(self, key: bytes, value: bytes) -> None:
        """Store the value and evict the least recently used ones; do nothing if the folder is not writable."""
        size = HEAD.size + len(value)
        if size * LARGEST_SHARE > self.capacity:
            return
        place = self._place(key)
        unfinished = place.with_name(f"{place.name}.{os.getpid()}-{time.monotonic_ns()}{UNFINISHED}")
        try:
            if not self.is_usable():
                return
            place.parent.mkdir(mode=0o700, exist_ok=True)
            handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(HEAD.pack(MAGIC, FORMAT, key, len(value), compute_checksum(value)))
                file.write(value)
            unfinished.replace(place)
            self._held = None if self._held is None else self._held + size
            self._make_room()
        except OSError:
            with suppress(OSError):
                unfinished.unlink()

    def discard(self, key: bytes) -> None:
        """Remove an entry whose value turned out to be useless."""
        with suppress(OSError):
            self._place(key).unlink()

    def contents(self) -> Contents:
        """Count the entries of the folder."""
        sizes = [size for _, size, place in self._files() if place.suffix == ENTRY]
        hits = 0
        with suppress(OSError):
            hits = (self.path / HITS).stat().st_size
        return Contents(len(sizes), sum(sizes), hits)

    def clear(self) -> None:
        """Remove all entries and the hit count; keep files that do not belong to the cache."""
        for _, _, place in self._files():
            with suppress(OSError):
                place.unlink()
        with suppress(OSError):
            (self.path / HITS).unlink()
        self._held = None

    def _place(self, key: bytes) -> Path:
        name = key.hex()
        return self.path / name[:2] / (name[2:] + ENTRY)

    def is_usable(self) -> bool:
        """Create the folder if it is missing; return whether only the user owns and can write the folder."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            return self._is_own() and os.access(self.path, os.W_OK)
        except OSError:
            return False

    def _is_own(self) -> bool:
        """Return whether only the user owns and can write the folder. Raises OSError if it is missing."""
        status = self.path.lstat()
        shared = os.name == "posix" and status.st_mode & 0o022 != 0
        return stat.S_ISDIR(status.st_mode) and _is_own(status) and not shared

    def _count(self) -> None:
        handle = os.open(self.path / HITS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(handle, b".")
        finally:
            os.close(handle)

    def _make_room(self) -> None:
        if self._held is not None and self._held <= self.capacity:
            return
        now = time.time()
        # Times in the future come from another clock: such entries are evicted first.
        files = sorted((0.0 if used > now + 60 else used, size, place) for used, size, place in self._files())
        self._held = sum(size for _, size, _ in files)
        most = self.capacity * LEFT if self._held > self.capacity else self.capacity
        for used, size, place in files:
            abandoned = place.suffix == UNFINISHED and now - used > ABANDONED
            if self._held <= most and not abandoned:
                continue
            with suppress(OSError):
                place.unlink()
                self._held -= size

    def _files(self) -> Iterator[tuple[float, int, Path]]:
        """Yield time of last use, size and path of all entries and unfinished files."""
        with suppress(OSError):
            for folder in sorted(self.path.glob("[0-9a-f][0-9a-f]")):
                with suppress(OSError), os.scandir(folder) as found:
                    for each in found:
                        if each.name.endswith((ENTRY, UNFINISHED)):
                            with suppress(OSError):
                                status = each.stat(follow_symlinks=False)
                                yield status.st_mtime, status.st_size, Path(each.path)


def _reserve_memory(size: int) -> memoryview:
    """Return memory of this size. Large memory is mapped at once, since page faults would take longer than the read."""
    if size >= LARGE and sys.platform == "linux":
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_POPULATE", 0)
        return memoryview(mmap.mmap(-1, size, flags=flags))
    return memoryview(bytearray(max(size, 0)))


def _is_own(status: os.stat_result) -> bool:
    return os.name != "posix" or status.st_uid == os.geteuid()


def _is_whole(head: bytes, value: memoryview | None, key: bytes) -> bool:
    """Return whether an entry is undamaged and has this key."""
    if value is None or len(head) < HEAD.size:
        return False
    magic, version, found, length, told = HEAD.unpack(head)
    return (magic, version, found, length) == (MAGIC, FORMAT, key, len(value)) and compute_checksum(value) == told


def compute_checksum(value: bytes | memoryview) -> int:
    """Return the CRC-32 of a value, or for a large value of the row and column sums of its words as a table.

    This takes a quarter of the time, and detects typical storage damage: changed or zeroed bytes, and exchanged words
    or rows. Only deliberate changes could cancel out in all sums.
    """
    if len(value) < LARGE:
        return zlib.crc32(value)
    import numpy as np  # already imported by code that has large values

    words = np.frombuffer(value, np.uint64, len(value) // SUMMED * (SUMMED // 8)).reshape(-1, SUMMED // 8)
    found = zlib.crc32(value[words.nbytes :])
    for axis in (0, 1):
        found = zlib.crc32(words.sum(axis, np.uint64), found)
    return found


# --- the folder of this process ---

_chosen: Path | bool = True
"""The argument of `use_folder`: a folder, True for the default folder, or False for none."""


def use_folder(folder: str | os.PathLike[str] | bool) -> None:
    """Store values in this folder from now on; True selects the default folder, False disables the cache."""
    global _chosen
    _chosen = folder if isinstance(folder, bool) else Path(folder)


def find_cache_folder() -> CacheFolder | None:
    """Return the cache folder of this process; None if it is disabled or no location is known."""
    if _chosen is False or os.environ.get(SWITCH, "").strip().lower() in OFF:
        return None
    if isinstance(_chosen, Path):
        return _open_folder(_chosen, _read_capacity())
    named = os.environ.get(FOLDER) or ""
    if named:
        return _open_folder(Path(named), _read_capacity())
    home = os.environ.get("XDG_CACHE_HOME") or ""
    try:
        # As in the XDG specification: relative paths are ignored.
        base = Path(home) if home and Path(home).is_absolute() else Path.home() / ".cache"
    except RuntimeError:
        return None
    return _open_folder(base / "morrow", _read_capacity())


@cache
def _open_folder(path: Path, capacity: int) -> CacheFolder:
    return CacheFolder(path, capacity)


def _read_capacity() -> int:
    text = os.environ.get(SIZE, "").strip()
    return int(text) if text.isdecimal() and text.isascii() else CAPACITY


# --- writing in the background ---

_writers: list[ThreadPoolExecutor] = []
_waiting: list[Future[None]] = []


def _reset_after_fork() -> None:
    """Forget the parent's writer thread and its pending entries, which a forked process does not have."""
    _writers.clear()
    _waiting.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


def store_entry(folder: CacheFolder, key: bytes, make: Callable[[], bytes]) -> None:
    """Store the value that `make` returns, in a background thread; the process waits for it before it ends."""
    _waiting[:] = [future for future in _waiting if not future.done()]
    if len(_waiting) >= MAX_WAITING:
        return
    if not _writers:
        _writers.append(ThreadPoolExecutor(1, "morrow-cache"))
    with suppress(RuntimeError):  # the interpreter is shutting down
        _waiting.append(_writers[0].submit(lambda: folder.put(key, make())))


def wait_for_writes() -> None:
    """Wait until all values are written."""
    for future in _waiting:
        future.result()
