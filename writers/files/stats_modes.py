"""The statistics that a file keeps of each column: none, the null count, or bounds in full or truncated.

In order of precedence: ``fields.<column>.stats-mode``; 128 characters for system columns (and, in thin mode, for the
columns of the key, whose statistics are those of the key); none behind the first n columns of
``metadata.stats-keep-first-n-columns``; the mode of the level, of the changelog or of the table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.schema import SEQUENCE_NUMBER, VALUE_KIND
from morrow.engine.names import KEY_PREFIX
from morrow.engine.options import WriteOptions
from morrow.engine.options.declared.columns import STATS_MODE
from morrow.writers.files.layout import FileLayout

TRUNCATE = re.compile(r"truncate\((\d+)\)")
KEY_LENGTH = 128
"""Characters kept of the bounds of keys."""


@dataclass(frozen=True)
class StatsMode:
    """`length` is in characters (code points), None for bounds in full; without `bounds` only nulls are counted."""

    counts: bool = True
    bounds: bool = True
    length: int | None = None


NONE = StatsMode(counts=False, bounds=False)
COUNTS = StatsMode(bounds=False)
FULL = StatsMode()
NAMED = {"none": NONE, "counts": COUNTS, "full": FULL}


def parse_mode(text: str, where: str) -> StatsMode:
    """Parses ``none``, ``counts``, ``full`` or ``truncate(n)``. Raises `InvalidArgument`."""
    name = text.strip().lower()
    if name in NAMED:
        return NAMED[name]
    match = TRUNCATE.fullmatch(name)
    if match is None or int(match[1]) == 0:
        raise InvalidArgument(f"{where}: the statistics mode {text!r} is not none, counts, full or truncate(16)")
    return StatsMode(length=int(match[1]))


def stats_modes(
    layout: FileLayout, write: WriteOptions, mode: str, *, cuts_system_columns: bool, where: str
) -> tuple[StatsMode, ...]:
    """Returns the mode of each column of the file, in the order of `layout.fields`.

    Args:
        mode: the mode of columns without a rule of higher precedence.
        cuts_system_columns: the format's; where it does not, system columns are treated like any other.
    """
    default, names = parse_mode(mode, where), [field.name for field in layout.fields]
    keys = {key.name for key in layout.keys} if layout.thin else set()
    modes, counted = [], 0
    for name in names:
        own = write.given.get(STATS_MODE.of(name))
        if own is not None:
            chosen = parse_mode(own, where)
        elif cuts_system_columns and (_is_system(name) or name in keys):
            modes.append(StatsMode(length=KEY_LENGTH))
            continue
        else:
            chosen = NONE if 0 <= write.stats_keep_first <= counted else default
        modes.append(chosen)
        counted += 1
    return tuple(modes)


def _is_system(name: str) -> bool:
    return name.startswith(KEY_PREFIX) or name in SYSTEM_COLUMNS


SYSTEM_COLUMNS: Sequence[str] = (SEQUENCE_NUMBER, VALUE_KIND, "_LEVEL", "rowkind", "_ROW_ID")
