"""The arguments of cast rules, the registry of the rules, and helpers that they share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from morrow.engine.errors import Unsupported
from morrow.engine.format import types as t
from morrow.engine.schema.schema_changes import Path, format_path
from morrow.engine.structs import replace
from morrow.readers.casts.dtypes import cast_layout

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TypeChange:
    """A change of a column's type, for errors: the column or member, and the schema ids of the file and the read."""

    path: Path
    written: int
    read: int

    def set_type(self, kind: t.DataType) -> str:
        """Return the call that gives the column a type."""
        name = self.path if len(self.path) > 1 and any("." in part for part in self.path) else ".".join(self.path)
        return f"table.alter.set_type({name!r}, {str(kind.with_nullable(True))!r})"


@dataclass(frozen=True)
class Cast:
    """One cast: source and target type, session time zone, name in errors, and the type change that requires it."""

    source: Any
    target: Any
    zone: str = "UTC"
    where: str | None = None
    change: TypeChange | None = None

    def inside(self, step: str, source: t.DataType, target: t.DataType) -> Cast:
        """Return the cast of a member, of elements or of values; `step` names it in the type change."""
        change = self.change and replace(self.change, path=(*self.change.path, step))
        return replace(self, source=source, target=target, change=change)

    def failure(self, value: object, reason: str) -> Unsupported:
        """Return the error for an unrepresentable value; Java fails on it as well, unless `reason` says otherwise."""
        change = self.change
        if change is None:
            cast = f"the value {value!r} in a cast from {self.source} to {self.target}"
            return Unsupported(cast, where=self.where, hint=reason)
        return Unsupported(
            f"the value {value!r} of the column {format_path(change.path)}, written as {self.source} by schema "
            f"{change.written}, as {self.target} of schema {change.read}",
            where=self.where,
            hint=f"{reason}; set the type back: {change.set_type(self.source)}, or read a snapshot of before",
        )

    def require(self, array: pa.Array, valid: pa.Array, reason: str) -> None:
        """Raise for the first value of `array` that is not null and not `valid`.

        Raises `Unsupported`: there is such a value.
        """
        bad = array.filter(pc.and_(array.is_valid(), pc.invert(pc.fill_null(valid, False))))
        if len(bad):
            raise self.failure(show_value(bad[:1]), reason)


def show_value(value: pa.Array) -> object:
    """Return the single value of an array in the form for messages."""
    # Arrow's dates have a wider range than Python's.
    return value.cast(pa.string())[0].as_py() if pa.types.is_temporal(value.type) else value[0].as_py()


Rule = Callable[[pa.Array, Cast], pa.Array]
RULES: dict[tuple[type[t.DataType], type[t.DataType]], Rule] = {}
"""By source and target type; filled by `morrow.readers.casts.rules`."""

TEXT_ONLY = (t.DateType, t.TimeType, t.TimestampType, t.LocalZonedTimestampType)
"""Types that Java casts to nullable STRING, but not to other character types."""
STRING = t.VarCharType()


def resolve(source: t.DataType, target: t.DataType) -> Rule | None:
    """Return the rule for this cast; None if Java does not support it."""
    if isinstance(source, TEXT_ONLY) and isinstance(target, t.CharType | t.VarCharType) and target != STRING:
        return None
    return RULES.get((source.__class__, target.__class__))


def apply(array: pa.Array, cast: Cast) -> pa.Array:
    """Cast one array; types that differ only in nullability need no rule.

    Raises `Unsupported`: no rule, or a value that cannot be cast.
    """
    if t.has_same_values(cast.source, cast.target):
        return cast_layout(array, cast.target.arrow())
    rule = resolve(cast.source, cast.target)
    if rule is None:
        raise make_cast_error(cast.source, cast.target, cast.where)
    return rule(array, cast)


def make_cast_error(source: t.DataType, target: t.DataType, where: str | None) -> Unsupported:
    """Return the error for an unsupported cast."""
    hint = "Java Paimon has none either; read a snapshot of before the type change"
    return Unsupported(f"a cast from {source} to {target}", where=where, hint=hint)


def to_numbers(array: pa.Array) -> npt.NDArray[Any]:
    """Return the values of a fixed-width array as numpy; nulls become 0, temporal types their integers."""
    if pa.types.is_date32(array.type) or pa.types.is_time32(array.type):
        array = array.cast(pa.int32())
    elif pa.types.is_timestamp(array.type):
        array = array.cast(pa.int64())
    if array.null_count:
        array = pc.fill_null(array, 0)
    result: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return result


def to_arrow_like(values: npt.NDArray[Any], array: pa.Array, type: pa.DataType) -> pa.Array:
    """Return `values` as an Arrow array of `type` with the nulls of `array`."""
    mask = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    return pa.array(values, mask=mask).cast(type)


def map_distinct(array: pa.Array, function: Callable[[Any], Any], type: pa.DataType) -> pa.Array:
    """Apply a Python function once to each distinct value, for lack of a vectorised kernel; nulls stay null."""
    encoded = array.dictionary_encode()
    results = pa.array([function(value) for value in encoded.dictionary.to_pylist()], type=type)
    return results.take(encoded.indices)


def fit_text(text: pa.Array, target: t.CharType | t.VarCharType) -> pa.Array:
    """Return text cut to the target's length in characters; CHAR is padded with blanks."""
    if target.length < t.MAX_LENGTH:
        text = pc.utf8_slice_codeunits(text, 0, target.length)
    return pc.utf8_rpad(text, target.length) if isinstance(target, t.CharType) else text
