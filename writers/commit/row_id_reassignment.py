"""New row ids for partitions whose rows have scattered ids (data evolution), by metadata alone.

Row ids are given in the order of commits, so the ids of a partition lie between ids of other partitions. Afterwards the
ids of each such partition are consecutive, above all ids given before. Data files do not change, since they do not hold
ids: manifests are written again, and so are the ranges of global indexes. An index whose range lies across several
ranges of files is dropped.

Files of a partition with the same rows keep the same ids, and so do files of BLOBs and vectors beside them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.format.binary_row import decode_columns
from morrow.engine.format.file_formats import is_dedicated_file
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.options.declared.features import DATA_EVOLUTION_REASSIGN_SKIP_CONTIGUOUS_ROW_COUNT
from morrow.engine.plan.entries import read_live_entries
from morrow.engine.plan.manifests import read_index_entries, read_manifest_entries
from morrow.writers.commit.manifests import ManifestWriter
from morrow.writers.target import WriteTarget

ROW_ID = "_ROW_ID"
PARTITION, FIRST, COUNT = "_PARTITION", "_FIRST_ROW_ID", "_ROW_COUNT"
LOW, HIGH, NEW, RUN, NUMBER = "low", "high", "new", "run", "number"


class Reassignment(msgspec.Struct, frozen=True):
    """The new ids of ranges of rows: columns `PARTITION`, `LOW`, `HIGH` (both included) and `NEW`, the new least id.

    `files` counts the files with new ids, `moved` the global indexes. `next_row_id` is the first id that is free
    afterwards. `index` has all index entries of the snapshot; None if it has none.
    """

    ranges: pl.DataFrame
    files: int
    next_row_id: int
    index: pl.DataFrame | None = None
    moved: int = 0

    @property
    def rows(self) -> int:
        return int((self.ranges[HIGH] - self.ranges[LOW] + 1).sum())

    def rewrite(
        self, target: WriteTarget, writer: ManifestWriter, listed: pl.DataFrame, written: list[str]
    ) -> pl.DataFrame:
        """Return the base list with new manifests instead of the manifests that name reassigned files.

        Args:
            listed: manifests, columns of `decode_manifest_list`.
            written: gets the names of the new files.
        """
        least, greatest = self.ranges[LOW].min(), self.ranges[HIGH].max()
        outside = (listed["_MIN_ROW_ID"] > greatest) | (listed["_MAX_ROW_ID"] < least)
        kept = [listed.filter(outside.fill_null(False))]
        chosen = listed.filter(~outside.fill_null(False))
        for number, entries in enumerate(read_manifest_entries(target.metadata, chosen)):
            new = self._map(entries, pl.col(FIRST), pl.col(FIRST) + pl.col(COUNT) - 1)
            if new.null_count() != entries.height:
                renumbered = entries.with_columns(pl.coalesce(new, entries[FIRST]).alias(FIRST))
                kept.append(writer.entries(renumbered, written))
            else:
                kept.append(chosen[number : number + 1])
        return pl.concat(kept)

    def _map(self, frame: pl.DataFrame, low: pl.Expr, high: pl.Expr) -> pl.Series:
        """Return the new least id of each row's range; null for rows whose range lies in none of `ranges`."""
        asked = frame.select(PARTITION, low.cast(pl.Int64).alias("from"), high.cast(pl.Int64).alias("to"))
        ranges = self.ranges.sort(LOW)
        found = (
            asked.with_row_index(NUMBER)
            .sort("from")
            .join_asof(ranges, left_on="from", right_on=LOW, by=PARTITION, strategy="backward", check_sortedness=False)
        )
        inside = pl.when(pl.col("to") <= pl.col(HIGH)).then(pl.col("from") - pl.col(LOW) + pl.col(NEW))
        return found.sort(NUMBER).select(inside.alias(FIRST)).to_series()

    def with_index(self, frame: pl.DataFrame | None) -> Reassignment:
        """Return the reassignment with the index entries that follow from it (columns of `decode_index_manifest`)."""
        if frame is None:
            return self
        about = pl.col("_GLOBAL_INDEX").struct
        low, high = about.field("_ROW_RANGE_START"), about.field("_ROW_RANGE_END")
        new = self._map(frame, low, high)
        touched = self._overlaps(frame, low, high)
        is_global = frame["_GLOBAL_INDEX"].is_not_null()
        moved = is_global & new.is_not_null()
        moves = pl.Series("by", new) - frame.select(low).to_series()
        shifted = frame.with_columns(moves.alias("by")).with_columns(
            pl.col("_GLOBAL_INDEX").struct.with_fields(
                (pl.field("_ROW_RANGE_START") + pl.col("by")).alias("_ROW_RANGE_START"),
                (pl.field("_ROW_RANGE_END") + pl.col("by")).alias("_ROW_RANGE_END"),
            )
        )
        index = pl.concat([frame.filter(~moved & ~(is_global & touched)), shifted.filter(moved).drop("by")])
        return msgspec.structs.replace(self, index=index, moved=int(moved.sum()))

    def _overlaps(self, frame: pl.DataFrame, low: pl.Expr, high: pl.Expr) -> pl.Series:
        asked = frame.select(PARTITION, low.alias("from"), high.alias("to")).with_row_index(NUMBER)
        pairs = asked.join(self.ranges, on=PARTITION).filter(
            (pl.col("from") <= pl.col(HIGH)) & (pl.col("to") >= pl.col(LOW))
        )
        return asked[NUMBER].is_in(pairs[NUMBER].unique().implode())


def plan_reassignment(
    target: WriteTarget, snapshot: Snapshot, partitions: Sequence[bytes] | None
) -> Reassignment | None:
    """Return the new ids of the partitions whose ids are scattered; None if there are none.

    `partitions`: the partitions to look at, in stored form; None: all.

    Raises `Unsupported`: files without ids, or that hold ids; files of BLOBs or vectors across several ranges of rows.
    """
    columns = (PARTITION, FIRST, COUNT, "_FILE_NAME", "_WRITE_COLS")
    live = read_live_entries(target.metadata, snapshot, target.schema, columns=columns).frame.select(columns)
    if partitions is not None:
        live = live.filter(live[PARTITION].is_in(list(partitions)))
    if not target.schema.partition_keys or not live.height:
        return None
    if live[FIRST].null_count():
        raise Unsupported("new row ids for files without row ids", where=target.where, hint="compact the table first")
    if live["_WRITE_COLS"].list.contains(ROW_ID).any():
        raise Unsupported("new row ids for files that hold row ids", where=target.where, hint="compact the table first")
    live = live.with_columns(pl.col(FIRST).alias(LOW), (pl.col(FIRST) + pl.col(COUNT) - 1).alias(HIGH))
    dedicated = pl.Series([is_dedicated_file(name) for name in live["_FILE_NAME"]], dtype=pl.Boolean)
    ranges = _choose_ranges(target, _merge_overlapping(live.filter(~dedicated)))
    if not ranges.height:
        return None
    widths = ranges[HIGH] - ranges[LOW] + 1
    first = snapshot.next_row_id or 0
    ranges = ranges.with_columns((widths.cum_sum() - widths + first).alias(NEW))
    found = Reassignment(ranges, 0, first + int(widths.sum()))
    mapped = found._map(live, pl.col(LOW), pl.col(HIGH))
    if (mapped.is_null() & found._overlaps(live, pl.col(LOW), pl.col(HIGH))).any():
        raise Unsupported("new row ids for files that lie across others", where=target.where, hint="compact the table")
    index = read_index_entries(target.metadata, snapshot)
    return msgspec.structs.replace(found.with_index(index), files=live.height - mapped.null_count())


def _merge_overlapping(files: pl.DataFrame) -> pl.DataFrame:
    """Return the ranges of ids that files of the same rows share, by partition and in order."""
    ordered = files.select(PARTITION, LOW, HIGH).unique().sort(PARTITION, LOW, HIGH)
    reach = pl.col(HIGH).cum_max().shift(1).over(PARTITION)
    begins = (pl.col(LOW) > reach).fill_null(True)
    numbered = ordered.with_columns(begins.cum_sum().alias(NUMBER))
    return numbered.group_by(PARTITION, NUMBER, maintain_order=True).agg(pl.col(LOW).min(), pl.col(HIGH).max())


def _choose_ranges(target: WriteTarget, ranges: pl.DataFrame) -> pl.DataFrame:
    """Return the ranges of partitions with several runs of ids, in the order of partitions, without long runs."""
    begins = (pl.col(LOW) != pl.col(HIGH).shift(1).over(PARTITION) + 1).fill_null(True)
    ranges = ranges.with_columns(begins.cum_sum().alias(RUN))
    most = target.write.given.get(DATA_EVOLUTION_REASSIGN_SKIP_CONTIGUOUS_ROW_COUNT)
    if most:
        rows = (pl.col(HIGH) - pl.col(LOW) + 1).sum().over(PARTITION, RUN)
        ranges = ranges.filter(rows <= most)
    ranges = ranges.filter(pl.col(RUN).n_unique().over(PARTITION) > 1)
    types = [field.type for field in target.partition_fields]
    values = decode_columns(ranges[PARTITION], types, where=target.where)
    keys = [column.alias(f"key {number}") for number, column in enumerate(values)]
    least = pl.col(LOW).min().over(PARTITION).alias("least")
    ordered = ranges.hstack(keys).with_columns(least).sort(*(key.name for key in keys), "least", LOW)
    return ordered.select(PARTITION, LOW, HIGH)
