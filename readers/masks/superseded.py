"""Masks of a merge-on-read section: the newest version of each key is live, older ones are dead positions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import polars as pl

from morrow.engine.errors import CorruptFile
from morrow.engine.format.schema import SEQUENCE_NUMBER, SEQUENCE_NUMBER_FIELD, VALUE_KIND, VALUE_KIND_FIELD
from morrow.engine.io.store import FileStore
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section
from morrow.readers.file_frames import file_frame
from morrow.readers.files import reading
from morrow.readers.masks.ordering import last_of_each_key

RETRACT_BIT = 1
"""Row kinds are +I 0, -U 1, +U 2, -D 3: retractions are odd."""


def superseded_masks(plan: ScanPlan, section: Section, store: FileStore) -> tuple[pl.Series | None, ...]:
    """One live mask per file: true at the newest version of a key that is not a retraction."""
    spec = plan.merge
    assert spec is not None
    # Rows of older files first: then the position decides between versions of a key.
    oldest_first = sorted(range(len(section.files)), key=lambda i: _age(section.files[i]))
    files = [section.files[i] for i in oldest_first]
    by_number = not _sequences_disjoint(files)
    with_kind = any(file.may_hold_retractions for file in files)
    names = [*spec.columns, *([SEQUENCE_NUMBER] if by_number else []), *([VALUE_KIND] if with_kind else [])]
    versions = _read_versions(plan, section, files, names, store)
    live = np.zeros(versions.height, bool)
    candidates = np.arange(versions.height)
    if with_kind and spec.ignore_delete:
        candidates = versions.select((pl.col(VALUE_KIND) & RETRACT_BIT) == 0).to_series().arg_true().to_numpy()
        versions = versions[candidates]
    order = versions.select(*spec.sequence, *([SEQUENCE_NUMBER] if by_number else []))
    newest = last_of_each_key(versions.select(spec.key), order, _directions(spec.sequence, spec.descending, by_number))
    if with_kind:
        kinds = versions[VALUE_KIND].to_numpy()
        newest = newest[(kinds[newest] & RETRACT_BIT) == 0]
    live[candidates[newest]] = True
    bounds = np.cumsum([0, *(file.row_count for file in files)])
    by_file = {index: live[start:end] for index, (start, end) in zip(oldest_first, pairwise(bounds))}
    return tuple(None if by_file[i].all() else pl.Series(by_file[i]) for i in range(len(section.files)))


def _directions(sequence: Sequence[str], descending: bool, by_number: bool) -> list[bool]:
    return [*[descending] * len(sequence), *([False] if by_number else [])]


def _age(file: DataFile) -> tuple[int, int]:
    return file.min_sequence, file.max_sequence


def _sequences_disjoint(files: Sequence[DataFile]) -> bool:
    """Whether every version in a later file is newer than all versions in earlier ones."""
    return all(older.max_sequence < newer.min_sequence for older, newer in pairwise(files))


def _read_versions(
    plan: ScanPlan, section: Section, files: Sequence[DataFile], names: Sequence[str], store: FileStore
) -> pl.DataFrame:
    system = {f.name: f for f in (SEQUENCE_NUMBER_FIELD, VALUE_KIND_FIELD)}
    fields = tuple(system.get(name) or plan.schema.by_name[name] for name in names)
    with reading(f"{plan.table}, keys of bucket {section.bucket}"):
        frames = pl.collect_all([file_frame(plan, section, [file], fields, store) for file in files])
    for file, frame in zip(files, frames):
        if frame.height != file.row_count:
            raise CorruptFile(file.path, f"{frame.height} rows where the manifest says {file.row_count}")
    return pl.concat(frames)
