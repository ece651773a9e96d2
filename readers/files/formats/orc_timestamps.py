"""ORC timestamps of all years and zones.

Arrow's reader is limited to the range of nanoseconds in 64 bits, 1677 to 2262, and differs from Java in zones other
than UTC before 1970 (the second that is lost to a fraction there, local mean times).

A timestamp column is two integer streams: seconds since 2015-01-01 in the writer's zone, laid out exactly as the values
of a LONG column, and nanoseconds. So Arrow is told that timestamps are LONG: it then returns the seconds, with nulls
and nesting. The nanoseconds are taken from their stream (`morrow.engine.format.orc_rle`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from morrow.engine.errors import CorruptFile, Unsupported
from morrow.engine.format.orc_columns import ZEROS_BITS
from morrow.engine.format.orc_layout import (
    DIRECT_V2,
    LONG,
    SECONDARY,
    TIMESTAMP_INSTANT,
    OrcLayout,
    Stripe,
)
from morrow.engine.format.orc_rle import decode_unsigned
from morrow.engine.format.orc_stripes import TIMES, StripeColumns
from morrow.engine.format.orc_zones import UTC, offsets, orc_epoch_seconds
from morrow.engine.format.types import DataType, LocalZonedTimestampType, TimestampType
from morrow.engine.units import NANOS_PER_MILLI, NANOS_PER_SECOND
from morrow.readers.files.formats.orc_kinds import decoded

UNITS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

Integers = npt.NDArray[np.int64]


class ExactTimestamps:
    """The columns of a file with timestamps read as seconds; `leaf` converts them to timestamps."""

    def __init__(self, layout: OrcLayout, legacy_ltz: bool) -> None:
        self.layout, self.where, self.legacy_ltz = layout, layout.where, legacy_ltz
        timed = (node for node, type_ in enumerate(layout.types) if type_.kind in TIMES)
        self.kinds = dict.fromkeys(timed, LONG)

    def read_stripe(self, columns: StripeColumns, kinds: Mapping[int, int]) -> pa.RecordBatch:
        """Reads the columns of a stripe with timestamps as int64 seconds."""
        self.stripe: Stripe = columns.stripe
        return decoded(columns, {**kinds, **self.kinds})

    def leaf(self, seconds: pa.Array, type_: DataType, path: tuple[int, ...]) -> pa.Array:
        """Returns timestamps from their seconds; `path` leads from the root of the type tree to the column.

        Raises:
            CorruptFile: the nanoseconds do not match.
            Unsupported: an old encoding, or a value that the Arrow type cannot hold.
        """
        assert isinstance(type_, (TimestampType, LocalZonedTimestampType))
        column = self._column(path)
        valid = seconds.is_valid().to_numpy(zero_copy_only=False)
        nanos = np.zeros(len(seconds), np.int64)
        nanos[valid] = self._nanos(column, int(valid.sum()))
        zone = self.stripe.zone
        instant = self.layout.types[column].kind == TIMESTAMP_INSTANT
        whole = np.asarray(seconds.fill_null(0)) + orc_epoch_seconds(UTC if instant else zone, self.where)
        # Seconds are cut towards zero by writers, and every reader undoes it where there is a fraction.
        whole = whole - ((whole < 0) & (nanos > NANOS_PER_MILLI - 1))
        if not instant or self.legacy_ltz:
            whole = whole + offsets(whole, zone, self.where)
        arrow = type_.arrow()
        per_second = UNITS_PER_SECOND[arrow.unit]
        bound = (2**63 - 1) // per_second - 1
        if (np.abs(whole[valid]) > bound).any():
            raise Unsupported(
                f"a {type_} before 1677 or after 2262",
                where=self.where,
                hint="Arrow counts nanoseconds in 64 bits; lower the column's precision to 6 and rewrite the file",
            )
        values = whole * per_second + nanos // (NANOS_PER_SECOND // per_second)
        return pa.array(values, mask=~valid).cast(arrow)

    def _column(self, path: tuple[int, ...]) -> int:
        column = 0
        for step in path:
            column = self.layout.types[column].children[step]
        return column

    def _nanos(self, column: int, count: int) -> Integers:
        if self.stripe.encodings[column : column + 1] != (DIRECT_V2,):
            raise Unsupported("ORC timestamps in the encoding of Hive 0.11", where=self.where)
        raw = decode_unsigned(self.layout.stream_bytes(self.stripe, column, SECONDARY), count, self.where)
        signed = raw.view(np.int64)  # Arrow's writer has negative nanoseconds before 1970
        zeros = signed & ((1 << ZEROS_BITS) - 1)
        nanos: Integers = (signed >> ZEROS_BITS) * 10 ** np.where(zeros > 0, zeros + 1, 0)
        if nanos.size and (int(nanos.max()) >= NANOS_PER_SECOND or int(nanos.min()) <= -NANOS_PER_SECOND):
            raise CorruptFile(self.where, "a timestamp with more nanoseconds than a second has")
        return nanos
