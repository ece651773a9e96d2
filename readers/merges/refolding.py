"""Merged rows of a section that a commit has changed: only keys with rows in files that came or went are merged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from morrow.engine.errors import CorruptFile
from morrow.engine.format.types import DataField
from morrow.engine.names import cols
from morrow.readers.files.file_errors import reading_files
from morrow.readers.files.file_frames import file_frame
from morrow.readers.files.virtual_columns import depend_on_file
from morrow.readers.masks import Mask, long_mask
from morrow.readers.masks.file_keys import file_keys
from morrow.readers.masks.refresh import Changed, changed
from morrow.readers.masks.section_keys import SectionKeys, oldest_first
from morrow.readers.merges.kept import keep, known, nearest_known, told
from morrow.readers.merges.merged import Merged
from morrow.readers.merges.section_merge import SectionMerge
from morrow.readers.merges.version_masks import Rows, version_masks


def refolded(merge: SectionMerge) -> Merged | None:
    """Merges the keys that have changed since an earlier state, reading the values of their rows.

    None where no such state is known, or where too much has changed.
    """
    change = _changed(merge)
    if change is None:
        return None
    before, found = change
    masks: list[Mask] = []
    for file, rows, shared in zip(found.keys.files, found.rows, _shared(merge, found)):
        mask = np.zeros(file.row_count, bool)
        mask[rows[shared]] = True
        masks.append(pl.Series(mask) if shared.any() else None)
    frames = merge.read(found.keys, found.keys.everything, masks, merge.fields(found.keys))
    return before.changed(found.wanted, [told(merge, rows) for rows in merge.merged_once(found.keys, frames)])


def refolded_rows(merge: SectionMerge) -> pl.DataFrame | None:
    """Returns all rows of the section, merging the keys that have changed from what is read anyway.

    None where merged rows are cached already, or where too much has changed.
    """
    change = None if known(merge, merge.section) is not None else _changed(merge)
    if change is None:
        return None
    before, found = change
    wanted = [merge.plan.schema.by_name[name] for name in merge.names]
    inputs = [field for field in merge.values(found.keys) if field not in wanted]
    rows = _read_whole(merge, found.keys, wanted)
    starts = np.cumsum([0, *(file.row_count for file in found.keys.files)])
    shared = _shared(merge, found)
    numbers = np.concatenate([start + row[kept] for start, row, kept in zip(starts, found.rows, shared)])
    deciding = [frame.filter(pl.Series(kept)) for frame, kept in zip(_with(merge, found, inputs), shared)]
    picked = rows[numbers].select(cols(name for name in rows.columns if name not in deciding[0].columns))
    ends = np.cumsum([frame.height for frame in deciding])
    frames = [
        pl.concat([frame, picked[end - frame.height : end]], how="horizontal") for frame, end in zip(deciding, ends)
    ]
    new = [told(merge, each) for each in merge.merged_once(found.keys, frames)]
    merged = keep(merge, before.changed(found.wanted, new)).rows
    masks = version_masks(merge.plan, merge.section, merge.store).single
    mask = long_mask(found.keys.files, [masks[i] for i in oldest_first(merge.section)])
    return pl.concat([rows if mask is None else rows.filter(mask), merged])


def _changed(merge: SectionMerge) -> tuple[Merged, Changed] | None:
    """Returns the merged rows of an earlier state of the section, and what has changed since."""
    near = nearest_known(merge)
    if near is None:
        return None
    base, before = near
    found = changed(merge.plan, merge.section, base, merge.store)
    return None if found is None else (before, found)


def _shared(merge: SectionMerge, found: Changed) -> list[Rows]:
    """Returns for each of the rows that have changed whether its key has several versions."""
    masks = version_masks(merge.plan, merge.section, merge.store).shared
    of_files = [masks[i] for i in oldest_first(merge.section)]
    return [
        np.zeros(len(rows), bool) if mask is None else mask.gather(rows).to_numpy()
        for mask, rows in zip(of_files, found.rows)
    ]


def _with(merge: SectionMerge, found: Changed, fields: Sequence[DataField]) -> list[pl.DataFrame]:
    """Returns the deciding columns of the rows that have changed, with `fields`, which are kept like those."""
    if not fields:
        return list(found.frames)
    files = file_keys(merge.plan, merge.section, found.keys.files, fields, (), merge.store)
    more = [[name for name in each.frame.columns if name not in found.frames[0].columns] for each in files]
    return [
        pl.concat([frame, each.frame[rows].select(cols(names))], how="horizontal")
        for frame, each, rows, names in zip(found.frames, files, found.rows, more)
    ]


def _read_whole(merge: SectionMerge, keys: SectionKeys, fields: Sequence[DataField]) -> pl.DataFrame:
    """Reads all rows of the files, one file after another, the oldest first."""
    shapes = {(file.schema_id, file.format, file.write_columns) for file in keys.files}
    one_by_one = len(shapes) > 1 or depend_on_file(merge.plan, fields)
    groups = [[file] for file in keys.files] if one_by_one else [list(keys.files)]
    frames = [file_frame(merge.plan, merge.section, group, fields, merge.store) for group in groups]
    with reading_files(merge.plan, [merge.section], tuple(fields), merge.store):
        read = pl.collect_all(frames)
    for group, frame in zip(groups, read):
        if frame.height != sum(file.row_count for file in group):
            raise CorruptFile(group[0].path, f"{frame.height} rows in this and others, not those of the manifests")
    return pl.concat(read)
