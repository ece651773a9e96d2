"""Files in stores that are not local, for code that reads local files by `pathlib.Path`.

Arrow reads them through `open_filesystem`. DuckDB opens local files only, so `copy_to_disk` copies a file for it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.fs as fs

from morrow.engine.errors import InvalidArgument
from morrow.engine.io.resolve import resolve
from morrow.engine.io.store import FileStatus, FileStore

CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
"""Endings of compressed text files -> codecs of Arrow."""
STREAM_BYTES = 4 << 20
"""Bytes of a remote text file that one request fetches."""


class Stat(NamedTuple):
    """The members of `os.stat_result` that imports use."""

    st_size: int
    st_mtime_ns: int


@dataclass(frozen=True, eq=False)
class StorePath:
    """A file or folder in a remote store, with those members of `pathlib.Path` that imports use."""

    store: FileStore
    key: str
    """The path within the store."""
    status: FileStatus | None = None

    @cached_property
    def _pure(self) -> PurePosixPath:
        return PurePosixPath(self.key)

    def __str__(self) -> str:
        return self.store.url(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorePath) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(self.key)

    def __lt__(self, other: StorePath) -> bool:
        return self._pure < other._pure

    def __truediv__(self, part: str) -> StorePath:
        return StorePath(self.store, f"{self.key.rstrip('/')}/{part}" if self.key else part)

    @property
    def name(self) -> str:
        return self._pure.name

    @property
    def suffixes(self) -> list[str]:
        return self._pure.suffixes

    @property
    def parents(self) -> Sequence[StorePath]:
        return [StorePath(self.store, "" if str(each) == "." else str(each)) for each in self._pure.parents]

    @property
    def parent(self) -> StorePath:
        return self.parents[0]

    def relative_to(self, root: StorePath) -> PurePosixPath:
        return self._pure.relative_to(root._pure)

    def resolve(self) -> StorePath:
        return self

    def is_file(self) -> bool:
        return bool(self.key) and self.store.exists(self.key)

    def is_dir(self) -> bool:
        return self.store.is_dir(self.key)

    def iterdir(self) -> Iterator[StorePath]:
        for each in self.store.list(self.key):
            yield StorePath(self.store, (self / each.name).key, each)

    def open(self, mode: str = "rb") -> BinaryIO:
        assert mode == "rb"
        return self.store.open(self.key)

    def stat(self) -> Stat:
        found = self.status or next(each for each in self.store.list(self.parent.key) if each.name == self.name)
        return Stat(found.size, found.modified_millis * 1_000_000)

    def walk(self) -> Iterator[StorePath]:
        """Yield all files below a folder."""
        for page in self.store.walk(self.key):
            for key, status in page:
                if not status.is_dir:
                    yield StorePath(self.store, key, status)


Place: TypeAlias = Path | StorePath
"""A file or folder, local or in a remote store."""


def open_place(location: str, storage_options: Mapping[str, str] | None = None) -> Place:
    """Return the file or folder that a path or URL names. Raises as `resolve`."""
    store, path = resolve(location, storage_options)
    return Path(path) if store.is_local else StorePath(store, path)


def is_match(parts: Sequence[str], patterns: Sequence[str]) -> bool:
    """Return whether a path, or one of its folders, matches a pattern; ``**`` stands for any folders."""
    if not patterns:
        return True
    if patterns[0] == "**":
        return any(is_match(parts[at:], patterns[1:]) for at in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], patterns[0]) and is_match(parts[1:], patterns[1:])


def find_common_folder(files: Sequence[Place]) -> Place:
    """Return the nearest folder that contains all files. Raises `InvalidArgument` for files of several stores."""
    first = files[0]
    if isinstance(first, Path) and all(isinstance(file, Path) for file in files):
        return Path(os.path.commonpath([file.parent for file in files if isinstance(file, Path)]))
    keys = [
        file.parent.key
        for file in files
        if isinstance(file, StorePath) and isinstance(first, StorePath) and file.store.url("") == first.store.url("")
    ]
    if not isinstance(first, StorePath) or len(keys) < len(files):
        raise InvalidArgument(f"{first} and other files lie in several stores; import the files of one store at a time")
    return StorePath(first.store, os.path.commonpath(keys))


def open_text(file: Place) -> Any:
    """Return a file, decompressed as its ending says, for Arrow's readers of text."""
    if isinstance(file, Path):
        return file
    stream = pa.input_stream(file.open(), compression=None, buffer_size=STREAM_BYTES)
    codec = CODECS.get(file.suffixes[-1].lower() if file.suffixes else "")
    return stream if codec is None else pa.CompressedInputStream(stream, codec)


def open_filesystem(files: Sequence[Place]) -> tuple[fs.FileSystem, list[str]]:
    """Return Arrow's file system of files of one store, and the paths of the files in it."""
    find_common_folder(files)
    if isinstance(files[0], Path):
        return fs.LocalFileSystem(), [str(file) for file in files]
    return fs.PyFileSystem(_StoreHandler({str(file): file for file in files})), [str(file) for file in files]


@contextmanager
def copy_to_disk(files: Sequence[Place]) -> Iterator[list[Path]]:
    """Yield the paths of files on the local disk: remote files are copied to a temporary folder within the block."""
    with ExitStack() as stack:
        local: list[Path] = []
        for number, file in enumerate(files):
            if isinstance(file, Path):
                local.append(file)
                continue
            folder = stack.enter_context(TemporaryDirectory(prefix="morrow-"))
            local.append(Path(folder, f"{number}{''.join(file.suffixes[-2:])}"))
            with file.open() as source, local[-1].open("wb") as target:
                shutil.copyfileobj(source, target, STREAM_BYTES)
        yield local


class _StoreHandler(fs.FileSystemHandler):  # type: ignore[misc]  # pyarrow has no types
    """File system of given files of a store, for Arrow's datasets: it opens them by their URLs, only to read."""

    def __init__(self, files: dict[str, Place]) -> None:
        self._files = files

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _StoreHandler) and self._files == other._files

    __hash__ = None  # type: ignore[assignment]

    def get_type_name(self) -> str:
        return "store"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: Sequence[str]) -> list[fs.FileInfo]:
        return [fs.FileInfo(path, fs.FileType.File, size=self._files[path].stat().st_size) for path in paths]

    def open_input_file(self, path: str) -> pa.PythonFile:
        return pa.PythonFile(self._files[path].open("rb"), mode="r")

    open_input_stream = open_input_file

    def _refuse(self, *_: object) -> Any:
        raise NotImplementedError("files of an import are read only")

    get_file_info_selector = create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _refuse
    delete_file = move = copy_file = open_output_stream = open_append_stream = _refuse
