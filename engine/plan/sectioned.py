"""Files of a plan in sections: what is read together, what is merged, and in which order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.format.arrow_buffers import series_of
from morrow.engine.format.binary_row import Value, decode_columns, python_rows
from morrow.engine.format.schema import TableSchema
from morrow.engine.merge.spec import MergeSpec
from morrow.engine.names import BUCKET_NUMBER, SECTION
from morrow.engine.plan.entry_checks import check_key_order
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.request import ScanRequest
from morrow.engine.plan.scan_plan import SectionKind
from morrow.engine.plan.sections import bucket_numbers, key_ranks, section_ids

KEY_BOUNDS = "_MIN_KEY", "_MAX_KEY"


class Sectioned(msgspec.Struct, frozen=True):
    """Entries with a section number each; within a section they are ordered by their least key.

    `kinds`: the kinds of sections other than RAW; `bounds`: the least and greatest key of each MERGE section.
    """

    frame: pl.DataFrame
    kinds: Mapping[int, SectionKind] = msgspec.field(default_factory=dict)
    bounds: Mapping[int, tuple[tuple[Value, ...], tuple[Value, ...]]] = msgspec.field(default_factory=dict)


def sectioned(metadata: TableMetadata, request: ScanRequest, spec: MergeSpec | None, frame: pl.DataFrame) -> Sectioned:
    """Divides visible entries into sections."""
    if spec is None and request.options.data_evolution and frame.height:
        return _stitched(frame)
    if spec is None or spec.hides_level_zero or not frame.height:
        return _raw(frame)
    return _merged(metadata, request.schema, frame)


def _raw(frame: pl.DataFrame) -> Sectioned:
    """Makes one RAW section per bucket."""
    groups = bucket_numbers(frame)
    order = np.argsort(groups, kind="stable")
    return Sectioned(_in_order(frame, order, groups, groups[order]))


def _stitched(frame: pl.DataFrame) -> Sectioned:
    """Makes one STITCH section of files that share row ids: they hold different columns of the same rows."""
    groups = bucket_numbers(frame)
    first = frame["_FIRST_ROW_ID"].fill_null(-1).to_numpy()
    last = first + np.maximum(frame["_ROW_COUNT"].to_numpy(), 1) - 1
    order = np.lexsort((first, groups))
    sections = section_ids(groups[order], first[order], last[order])
    kinds = dict.fromkeys(_distinct(sections), SectionKind.STITCH)
    return Sectioned(_in_order(frame, order, groups, sections), kinds)


def _merged(metadata: TableMetadata, schema: TableSchema, frame: pl.DataFrame) -> Sectioned:
    """Makes one MERGE section of files whose keys overlap, and one RAW section of all others of a bucket."""
    groups = bucket_numbers(frame)
    keys = _key_bounds(metadata, schema, frame)
    low, high = key_ranks(keys).reshape(2, -1)
    check_key_order(frame, low > high, metadata.where)
    order = np.lexsort((low, groups))
    sections = section_ids(groups[order], low[order], high[order])
    merged = np.bincount(sections)[sections] > 1
    # Raw sections are numbered after merged ones.
    numbers = np.where(merged, sections, len(sections) + np.unique(groups[order], return_inverse=True)[1])
    kinds = dict.fromkeys(_distinct(numbers[merged]), SectionKind.MERGE)
    bounds = _section_bounds(metadata, keys, order[merged], high, numbers[merged])
    return Sectioned(_in_order(frame, order, groups, numbers), kinds, bounds)


def _in_order(
    frame: pl.DataFrame, order: npt.NDArray[np.intp], groups: npt.NDArray[np.int64], sections: npt.NDArray[np.int64]
) -> pl.DataFrame:
    """Returns `frame` in this order; `groups` belong to its rows before ordering, `sections` to the ordered rows."""
    moved = (order[1:] < order[:-1]).any()
    return (frame[series_of(order)] if moved else frame).hstack(
        [series_of(groups[order]).alias(BUCKET_NUMBER), series_of(sections).alias(SECTION)]
    )


def schema_ids_of(frame: pl.DataFrame) -> list[int]:
    return _distinct(frame["_SCHEMA_ID"].to_numpy())


def _distinct(values: npt.NDArray[np.integer]) -> list[int]:
    # Asked for the values alone, numpy imports its masked arrays.
    found: list[int] = np.unique(values, return_counts=True)[0].tolist()
    return found


def _key_bounds(metadata: TableMetadata, schema: TableSchema, frame: pl.DataFrame) -> Sequence[pl.Series]:
    """Returns the key columns, each with the minima of all files followed by the maxima."""
    types = [schema.by_name[name].type for name in schema.trimmed_primary_keys]
    for schema_id in schema_ids_of(frame):
        written = metadata.schema(schema_id)
        ids = {f.id: f.type.with_nullable(True) for f in written.fields}
        for name, kind in zip(schema.trimmed_primary_keys, types):
            if ids.get(schema.by_name[name].id) != kind.with_nullable(True):
                raise Unsupported(f"a primary key column whose type was changed ({name!r})", where=metadata.where)
    return decode_columns(pl.concat([frame["_MIN_KEY"], frame["_MAX_KEY"]]), types, where=metadata.where)


def _section_bounds(
    metadata: TableMetadata,
    keys: Sequence[pl.Series],
    files: npt.NDArray[np.intp],
    high: npt.NDArray[np.int64],
    sections: npt.NDArray[np.int64],
) -> Mapping[int, tuple[tuple[Value, ...], tuple[Value, ...]]]:
    """Returns the least and greatest key of each MERGE section; `files` are in sections, ordered by least key."""
    if not len(files):
        return {}
    numbers, first = np.unique(sections, return_index=True)
    last = np.append(first[1:], len(files)) - 1
    greatest = files[np.lexsort((high[files], sections))[last]]
    ends = np.concatenate([files[first], len(high) + greatest])
    rows = python_rows([column[series_of(ends)] for column in keys], where=metadata.where)
    return dict(zip(numbers.tolist(), zip(rows[: len(numbers)], rows[len(numbers) :])))


def together(frame: pl.DataFrame) -> tuple[pl.DataFrame, list[int], list[int]]:
    """Returns entries section by section, as these first appear; the numbers of sections, and where each begins.

    The last of these is where none begins any more. Entries of a section keep their order.
    """
    found, first, counts = np.unique(frame[SECTION].to_numpy(), return_index=True, return_counts=True)
    appeared = np.argsort(first, kind="stable")
    numbers, starts = found[appeared].tolist(), [0, *np.cumsum(counts[appeared]).tolist()]
    if len(found) < 2 or len(counts) == frame.height:
        return frame, numbers, starts
    place = np.empty(len(found), np.int64)
    place[appeared] = np.arange(len(found))
    order = np.argsort(place[np.searchsorted(found, frame[SECTION].to_numpy())], kind="stable")
    moved = (order[1:] < order[:-1]).any()
    return frame[series_of(order)] if moved else frame, numbers, starts
