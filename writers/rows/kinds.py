"""Row kinds of incoming rows: one for all, in a column, beside the data, or in the table's ``rowkind.field``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import polars as pl

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.row_kinds import DELETE, INSERT, RETRACT_BIT, UPDATE_AFTER, UPDATE_BEFORE
from morrow.engine.names import unnamed

if TYPE_CHECKING:
    from morrow.writers.target import WriteTarget

Kinds: TypeAlias = "str | int | pl.Series | np.ndarray[tuple[int], np.dtype[np.generic]] | Iterable[str | int] | None"
"""One kind for all rows (``"-D"`` or its code), the name of a column of the data, or a kind per row."""

CODES = {"+I": INSERT, "-U": UPDATE_BEFORE, "+U": UPDATE_AFTER, "-D": DELETE}
SPELLINGS = "+I, -U, +U, -D or their codes 0 to 3"


class KindColumn:
    """The kinds of rows that arrive in pieces."""

    def __init__(self, kinds: Kinds, names: tuple[str, ...]) -> None:
        self.column: str | None = None
        """The column of the data that holds kinds and is not a column of the table."""
        self._of_piece = self._chosen(kinds, names)
        self._row = 0

    def of(self, piece_column: Callable[[str], pl.Series], height: int) -> pl.Series:
        """Returns the kinds of the next `height` rows (Int8). Raises `InvalidArgument` for an invalid kind."""
        kinds = self._of_piece(piece_column, height)
        self._row += height
        return kinds

    def check_end(self) -> None:
        """Raises `InvalidArgument` when there were more kinds than rows."""
        if isinstance(self._given, pl.Series) and len(self._given) != self._row:
            raise InvalidArgument(f"kinds has {len(self._given)} values for {self._row} rows; give one kind per row")

    _given: pl.Series | None = None

    def _chosen(self, kinds: Kinds, names: tuple[str, ...]) -> Callable[[Callable[[str], pl.Series], int], pl.Series]:
        if kinds is None:
            return lambda _column, height: _constant(INSERT, height)
        if isinstance(kinds, str) and kinds not in CODES:
            if kinds not in names:
                raise InvalidArgument(
                    f"kinds={kinds!r} is no kind ({SPELLINGS}) and no column of the data, whose columns are "
                    f"{', '.join(names)}"
                )
            self.column = kinds
            return lambda column, _height: codes(column(kinds))
        if isinstance(kinds, (str, int)):
            code = int(codes(pl.Series([kinds]))[0])
            return lambda _column, height: _constant(code, height)
        self._given = codes(_series(kinds))
        return self._next

    def _next(self, _column: Callable[[str], pl.Series], height: int) -> pl.Series:
        assert self._given is not None
        part = self._given.slice(self._row, height)
        if len(part) < height:
            raise InvalidArgument(f"kinds has {len(self._given)} values for more rows; give one kind per row")
        return part


def codes(kinds: pl.Series) -> pl.Series:
    """Returns the codes (Int8) of kinds given as text or codes.

    Raises:
        InvalidArgument: a null, or a value that is not a kind.
    """
    kinds = unnamed(kinds)
    if kinds.dtype.is_integer():
        found = kinds.is_between(INSERT, DELETE)
        result = pl.select(pl.when(found).then(kinds).cast(pl.Int8)).to_series()
    elif kinds.dtype in (pl.String, pl.Categorical, pl.Enum, pl.Null):
        result = kinds.cast(pl.String).replace_strict(CODES, default=None, return_dtype=pl.Int8)
    else:
        raise InvalidArgument(f"row kinds are {SPELLINGS}, not values of type {kinds.dtype}")
    if result.null_count():
        row = int(result.is_null().arg_max() or 0)
        raise InvalidArgument(f"row {row}: the row kind {kinds[row]!r} is none of {SPELLINGS}")
    return result


def _series(kinds: Any) -> pl.Series:
    if isinstance(kinds, pl.Series):
        return kinds
    try:
        columnar = hasattr(kinds, "__array__") or hasattr(kinds, "__arrow_c_stream__")
        made = pl.Series(kinds if columnar else list(kinds))
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"kinds: a {type(kinds).__name__} holds no row kinds ({error})") from error
    return made.cast(pl.Int8) if not len(made) else made


def _constant(code: int, height: int) -> pl.Series:
    return pl.Series([code], dtype=pl.Int8).new_from_index(0, height)


def kinds_of_field(rows: pl.DataFrame, field: str, first_row: int) -> pl.Series:
    """Returns the codes of the kinds in the table's column ``rowkind.field`` (text).

    Raises:
        InvalidArgument: a null, or text that is not a kind.
    """
    try:
        return codes(rows[field])
    except InvalidArgument as error:
        raise InvalidArgument(f"the column {field!r} (rowkind.field), from row {first_row} on: {error}") from error


def without_ignored(target: WriteTarget, rows: pl.DataFrame, kinds: pl.Series) -> tuple[pl.DataFrame, pl.Series]:
    """Returns the rows that the table accepts: ``ignore-delete`` drops retractions.

    Raises:
        InvalidArgument: a retraction that the table's merge engine refuses.
    """
    if kinds.max() in (None, INSERT):
        return rows, kinds
    retracting = (kinds & RETRACT_BIT) == 1
    if not retracting.any():
        return rows, kinds
    if target.options.ignore_delete:
        return rows.filter(~retracting), kinds.filter(~retracting)
    reason = _refusal(target)
    if reason:
        raise InvalidArgument(f"{target.where}: -U and -D rows cannot be written: {reason}")
    return rows, kinds


def _refusal(target: WriteTarget) -> str | None:
    merge = target.merge
    if merge is None:
        return "it is an append table; use Table.delete or Table.update"
    if merge.takes_retractions:
        return None
    return f"merge-engine {merge.engine} takes no retractions; {merge.refused_retractions}"
