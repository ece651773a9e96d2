"""Operating system errors as `StorageError` with a remedy, whichever library raised them.

Polars, Arrow and DuckDB open files themselves. They report failures as text, often without the error number, and with
the same error types as for damaged bytes. A file without read permission must not be reported as damaged.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from morrow.engine.errors import FileMissing, MorrowError, StorageError

PERMISSION = "give this user the permission, or run as one who has it"
MEMORY = "give the process more memory, or read fewer columns or rows at once"

WHAT_TO_DO: Mapping[int | None, str] = {
    errno.ENOSPC: "make room on the disk and try again",
    errno.EDQUOT: "make room within the quota and try again",
    errno.EFBIG: "the file system takes no larger files; choose a smaller 'target-file-size'",
    errno.EROFS: "mount the file system for writing",
    errno.EACCES: PERMISSION,
    errno.EPERM: PERMISSION,
    errno.EIO: "check the disk before writing to it again",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "raise the system's limit of open files, or close others",
    errno.ENOMEM: MEMORY,
    errno.EISDIR: "a folder is where a file should be; move it away",
    errno.ENXIO: "something else than a file is there; move it away",
    errno.ESTALE: "the file system was changed elsewhere; mount it anew and try again",
    errno.ETIMEDOUT: "the file system does not answer; try again when it does",
    errno.EHOSTDOWN: "the file system does not answer; try again when it does",
    errno.ENOTCONN: "the file system is not connected; mount it anew and try again",
    errno.ELOOP: "a link leads to itself; remove it",
}
"""Error number -> second half of the message."""

NUMBER = r"\(os error (\d+)\)|\[[Ee]rrno:? (\d+)\]|Os \{ code: (\d+)"
"""The forms in which Rust, Python and Arrow print the error number."""
_WORDS = {os.strerror(number).lower(): number for number in (*filter(None, WHAT_TO_DO), errno.ENOENT)}
_KINDS: Mapping[type[OSError], int] = {
    PermissionError: errno.EACCES,
    IsADirectoryError: errno.EISDIR,
    TimeoutError: errno.ETIMEDOUT,
}


def find_error_number(error: BaseException) -> int | None:
    """Return the operating system's error number; None for other errors."""
    known = getattr(error, "errno", None) if isinstance(error, OSError) else None
    if known is None:
        known = next((number for kind, number in _KINDS.items() if isinstance(error, kind)), None)
    if known is None and (found := re.search(NUMBER, str(error))) is not None:
        known = int(next(filter(None, found.groups())))
    if known is None:
        text = str(error).lower()
        known = next((number for words, number in _WORDS.items() if words in text), None)
    return known


def is_full(error: BaseException) -> bool:
    """Return whether an error means that the disk is full or a quota is exceeded."""
    return find_error_number(error) in (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def ignore_full_disk() -> Iterator[None]:
    """Ignore a full disk within the block, for optional writes such as hints."""
    try:
        yield
    except StorageError as error:
        if not is_full(error):
            raise


def to_system_error(error: BaseException, path: str) -> FileMissing | StorageError | None:
    """Return Morrow's error for an operating system error about a file; None for other errors."""
    number = find_error_number(error)
    if number in (errno.ENOENT, errno.ENOTDIR):
        return FileMissing(path)
    return (
        _make_storage_error(number, os.strerror(number), path) if number in WHAT_TO_DO and number is not None else None
    )


def to_storage_error(error: OSError, path: str) -> StorageError:
    """Return the `StorageError` for an operating system error about a file, with a remedy and the same `errno`."""
    return _make_storage_error(error.errno, str(error.strerror or error), path)


def _make_storage_error(number: int | None, words: str, path: str) -> StorageError:
    error = StorageError(f"{path}: {words}; {WHAT_TO_DO.get(number, 'check the path and its permissions')}")
    error.errno = number
    return error


@contextmanager
def translate_system_errors(path: str, *others: type[Exception]) -> Iterator[None]:
    """Turn operating system errors into `StorageError`, for code in the block that accesses a file by itself.

    `others` are further classes, besides `OSError`, that may contain a system error. Other errors pass unchanged.
    """
    try:
        yield
    except MorrowError:
        raise
    except OSError as error:
        raise to_storage_error(error, path) if error.errno else to_system_error(error, path) or error from error
    except others as error:
        found = to_system_error(error, path)
        if found is None:
            raise
        raise found from error
