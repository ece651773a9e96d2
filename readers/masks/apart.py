"""Rows of files set apart by masks while they are read: a stream decodes the files once and holds no other rows.

What is in memory already, as keys are where masks were just computed from them, goes through the stream beside the
columns of the files, and is not read again.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from morrow.engine.errors import CorruptFile
from morrow.engine.format.types import DataField
from morrow.engine.names import cols
from morrow.readers.files.file_errors import reading_files
from morrow.readers.files.file_frames import file_frame
from morrow.readers.files.registry import is_scanned
from morrow.readers.files.virtual_columns import depend_on_file
from morrow.readers.masks.live import Mask, long_mask
from morrow.readers.masks.section_keys import SectionKeys

WORTH_ROWS = 1 << 16
"""Rows of a section from which on columns are read apart from the keys: fewer are read sooner all at once."""


def read_first(keys: SectionKeys, names: Sequence[str]) -> list[str]:
    """Returns which of the columns `names` to read before it is known which rows are wanted, for `rows_apart` to add
    the others: those that decide. All of them where rows are few, files are far away or have no scan of their own.
    """
    near = keys.store.is_local and all(is_scanned(file.format, file.path) for file in keys.files)
    if not near or keys.section.row_count < WORTH_ROWS:
        return list(names)
    deciding = {field.name for field in keys.deciding_fields}
    return [name for name in names if name in deciding]


def rows_apart(
    keys: SectionKeys, chosen: Sequence[tuple[Sequence[str], Sequence[Mask]]], held: Sequence[pl.DataFrame] = ()
) -> list[pl.DataFrame]:
    """Returns the rows of each choice, in the order of the files.

    Args:
        chosen: for each choice its columns, and a mask of every file, the oldest first; None: all rows of the file.
        held: columns of all rows of every file that are in memory.

    Raises:
        CorruptFile: a file has more or fewer rows than masks have, or is damaged. FileMissing, StorageError.
    """
    there = frozenset(held[0].columns) if held else frozenset[str]()
    wanted = dict.fromkeys(name for names, _ in chosen for name in names)
    by_name = {field.name: field for field in (*keys.deciding_fields, *keys.plan.schema.fields)}
    fields = [by_name[name] for name in wanted if name not in there]
    if not fields:
        return [_of_memory(held, names, masks) for names, masks in chosen]
    # All choices take the same columns of the files: only then are those decoded once.
    scanned = [field.name for field in fields]
    columns = [[*names, *(name for name in scanned if name not in names)] for names, _ in chosen]
    parts: list[list[pl.LazyFrame]] = [[] for _ in chosen]
    with reading_files(keys.plan, [keys.section], tuple(fields), keys.store):
        for group in _groups(keys, fields):
            files = [keys.files[number] for number in group]
            frame = file_frame(keys.plan, keys.section, files, fields, keys.store)
            if len(chosen) > 1 and not is_scanned(files[0].format, files[0].path):
                frame = frame.collect().lazy()  # a decoder would run for each choice
            beside = [
                pl.concat([held[number].get_column(name) for number in group]) for name in wanted if name in there
            ]
            frame = frame.with_columns(map(pl.lit, beside)) if beside else frame
            for (_, masks), names, rows in zip(chosen, columns, parts):
                mask = long_mask(files, [masks[number] for number in group])
                rows.append(
                    frame.select(cols(names)) if mask is None else frame.select(cols(names)).filter(pl.lit(mask))
                )
        found = pl.collect_all([pl.concat(rows) for rows in parts], engine="streaming")
    for (_, masks), each in zip(chosen, found):
        if each.height != sum(f.row_count if m is None else int(m.sum()) for f, m in zip(keys.files, masks)):
            raise CorruptFile(keys.files[0].path, f"{each.height} rows in it and others, not those of the manifests")
    # Polars copies frames of several chunks to select from them.
    return [
        each if len(names) == each.width else pl.DataFrame([each.get_column(name) for name in names])
        for (names, _), each in zip(chosen, found)
    ]


def _of_memory(held: Sequence[pl.DataFrame], names: Sequence[str], masks: Sequence[Mask]) -> pl.DataFrame:
    frames = (frame.select(cols(names)) for frame in held)
    return pl.concat([frame if mask is None else frame.filter(mask) for frame, mask in zip(frames, masks)])


def _groups(keys: SectionKeys, fields: Sequence[DataField]) -> list[list[int]]:
    """Returns the numbers of the files that one scan reads: all of them, or each file alone."""
    shapes = {(file.schema_id, file.format, file.write_columns) for file in keys.files}
    one_by_one = len(shapes) > 1 or depend_on_file(keys.plan, fields)
    numbers = range(len(keys.files))
    return [[number] for number in numbers] if one_by_one else [list(numbers)]
