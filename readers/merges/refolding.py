"""Merged rows of a section that a commit has changed: only keys with rows in files that came or went are merged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from morrow.engine.format.arrow_buffers import series_of
from morrow.engine.format.types import DataField
from morrow.engine.names import cols
from morrow.readers.masks import Mask
from morrow.readers.masks.apart import rows_apart
from morrow.readers.masks.bits import uniform
from morrow.readers.masks.file_keys import file_keys
from morrow.readers.masks.refresh import Changed, changed
from morrow.readers.masks.section_keys import oldest_first
from morrow.readers.merges.kept import keep, nearest_known, told
from morrow.readers.merges.merged import Merged
from morrow.readers.merges.section_merge import SectionMerge
from morrow.readers.merges.version_masks import ChangedVersions, Rows, masks_after, version_masks


def refolded(merge: SectionMerge) -> Merged | None:
    """Merges the keys that have changed since an earlier state, reading the values of their rows.

    None where no such state is known, or where too much has changed.
    """
    change = _changed(merge)
    if change is None:
        return None
    before, found = change
    masks = _masks(found, _shared(merge, found))
    frames = merge.read(found.keys, found.keys.everything, masks, merge.fields(found.keys))
    return before.changed(found.wanted, [told(merge, rows) for rows in merge.merged_once(found.keys, frames)])


def refolded_rows(merge: SectionMerge) -> pl.DataFrame | None:
    """Returns all rows of the section, merging the keys that have changed from what is read anyway.

    None where no such state is known, or where too much has changed.
    """
    change = _changed(merge)
    if change is None:
        return None
    before, found = change
    wanted = [merge.plan.schema.by_name[name] for name in merge.names]
    inputs = [field for field in merge.values(found.keys) if field not in wanted]
    changes = ChangedVersions.of(found)
    masks = masks_after(found, changes)
    shared = np.split(changes.shared, np.cumsum(found.heights)[:-1])
    alone = [masks.single[i] for i in oldest_first(merge.section)]
    changing: list[Mask] = [
        uniform(False, file.row_count) if mask is None else mask
        for file, mask in zip(found.keys.files, _masks(found, shared))
    ]
    single, picked = rows_apart(found.keys, [(merge.names, alone), (merge.names, changing)])
    new = []
    if picked.height:
        deciding = _with(merge, found, inputs).filter(series_of(changes.shared))
        values = picked.select(cols(name for name in picked.columns if name not in deciding.columns))
        rows = pl.concat([deciding, values], how="horizontal")
        new.append(told(merge, merge.merged(found.keys, rows, changes.versions.among(changes.shared))))
    return pl.concat([single, keep(merge, before.changed(found.wanted, new)).rows])


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


def _with(merge: SectionMerge, found: Changed, fields: Sequence[DataField]) -> pl.DataFrame:
    """Returns the deciding columns of the rows that have changed, with `fields`, which are kept like those."""
    if not fields:
        return found.frame
    files = file_keys(merge.plan, merge.section, found.keys.files, fields, (), merge.store)
    more = [[name for name in each.frame.columns if name not in found.frames[0].columns] for each in files]
    return pl.concat(
        pl.concat([frame, each.frame[rows].select(cols(names))], how="horizontal")
        for frame, each, rows, names in zip(found.frames, files, found.rows, more)
    )


def _masks(found: Changed, shared: Sequence[Rows]) -> list[Mask]:
    """Returns for each file which of its rows have changed and are `shared`; None: none of them."""
    masks: list[Mask] = []
    for file, rows, kept in zip(found.keys.files, found.rows, shared):
        mask = uniform(False, file.row_count) if kept.any() else None
        masks.append(None if mask is None else mask.scatter(pl.Series(rows[kept]), True))
    return masks
