"""Files of vectors beside the data files of a bucket, in tables with data evolution and ``vector.file.format``.

A data file holds the other columns of its rows. The vectors of the same rows follow in one or more files named
``<name>.vector.<format>``. The metadata of both kinds names their columns.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import polars as pl

from morrow.engine.errors import StorageError
from morrow.engine.format.file_formats import VECTOR_INFIX, is_dedicated_file
from morrow.engine.format.manifest_entries import DataFileMeta, FileSource
from morrow.engine.format.types import DataField, VectorType
from morrow.engine.io.store import translate_system_errors
from morrow.engine.names import cols
from morrow.engine.options.declared.features import VECTOR_FILE_FORMAT, VECTOR_TARGET_FILE_SIZE
from morrow.engine.structs import replace
from morrow.writers.files.data_files import FileKind, Placement, delete_files, write_blocks
from morrow.writers.files.encoders import cut_blocks, encode_in_threads
from morrow.writers.target import WriteTarget

Fields = tuple[DataField, ...]
WriteFiles = Callable[[Iterator[pl.DataFrame], Fields], list[DataFileMeta]]
"""Writes rows of these columns to data files."""


def select_filed_vectors(target: WriteTarget, columns: Fields) -> Fields:
    """Return the VECTOR columns that have files of their own; none if there are no other columns beside them."""
    if not target.options.data_evolution or target.write.given.get(VECTOR_FILE_FORMAT) is None:
        return ()
    found = tuple(field for field in columns if isinstance(field.type, VectorType))
    return found if len(found) < len(columns) else ()


def write_with_vectors(
    target: WriteTarget, place: Placement, frames: Iterable[pl.DataFrame], columns: Fields, write: WriteFiles
) -> list[DataFileMeta]:
    """Write rows of these columns: their vectors to files of vectors, the other columns by `write`.

    Vectors wait in a temporary file until the data files of their rows are complete.

    Returns: each data file, followed by the files of its vectors, durable.

    Raises: as `write_files`. After any error, no new file is left.
    """
    vectors = select_filed_vectors(target, columns)
    others = tuple(field for field in columns if field not in vectors)
    files: list[DataFileMeta] = []
    with tempfile.TemporaryDirectory(prefix="morrow-vectors-") as folder:
        paths: list[Path] = []

        def split() -> Iterator[pl.DataFrame]:
            for number, frame in enumerate(frames):
                path = Path(folder) / f"{number}.arrow"
                with translate_system_errors(folder, pl.exceptions.PolarsError):
                    frame.select(cols(field.name for field in vectors)).write_ipc(path)
                paths.append(path)
                yield frame.select(cols(field.name for field in others))

        written = write(split(), others)
        try:
            rows = _Rows(paths)
            for number, file in enumerate(written):
                files.append(file)
                ends = number + 1 == len(written) or not is_dedicated_file(written[number + 1].file_name)
                if ends:
                    owner = next(each for each in reversed(files) if not is_dedicated_file(each.file_name))
                    files += _write_vectors(target, place, rows.take(owner.row_count), vectors)
        except BaseException:
            with suppress(StorageError):
                delete_files(target, place, [*files, *(file for file in written if file not in files)])
            raise
    return files


class _Rows:
    """Rows in temporary files, taken one after the other."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._frames = map(pl.read_ipc, paths)
        self._left: pl.DataFrame | None = None

    def take(self, count: int) -> Iterator[pl.DataFrame]:
        """Yield the next rows."""
        while count:
            frame = next(self._frames) if self._left is None else self._left
            yield frame[:count]
            self._left = frame[count:] if frame.height > count else None
            count -= min(frame.height, count)


def _write_vectors(
    target: WriteTarget, place: Placement, frames: Iterator[pl.DataFrame], vectors: Fields
) -> list[DataFileMeta]:
    given, write = target.write.given, target.write
    size = given.get(VECTOR_TARGET_FILE_SIZE) or write.target_file_size
    name = str(given.get(VECTOR_FILE_FORMAT)).lower()
    chosen = replace(target, write=replace(write, file_format=name, format_per_level={}, target_file_size=size))
    kind = FileKind.of(chosen, 0, changelog=False, columns=vectors)
    kind = replace(kind, suffix=f"{VECTOR_INFIX.rstrip('.')}{kind.suffix}")
    with closing(encode_in_threads(kind.describe, cut_blocks(frames, kind.block_bytes))) as blocks:
        return write_blocks(chosen, place, kind, blocks, FileSource.APPEND, 0)
