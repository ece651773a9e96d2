"""Type changes of columns in data files: values that the new type cannot read, or does not preserve.

A cast preserves a value if casting back returns the same value, and no text or number is cut, rounded or null. A text
is preserved by a number without leading zeros that has the same value, by a date if it has no time, and by a timestamp
of its precision. A text that is not a valid value of the type breaks reads: each fails, with the call that sets the
type back.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from decimal import Context, InvalidOperation

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from morrow.engine.errors import Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.types import has_same_values
from morrow.engine.io.store import FileStore
from morrow.engine.plan.file_statistics import FileFacts, read_file_facts
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.scan_plan import ScanPlan, SectionKind
from morrow.engine.schema.schema_changes import ELEMENT, VALUE, Path, format_path
from morrow.engine.structs import replace
from morrow.readers.casts.base import Cast, TypeChange, apply, map_distinct, resolve, show_value
from morrow.readers.casts.dtypes import to_arrow_array, to_polars_dtype
from morrow.readers.casts.rules import WHOLE_DIGITS, WIDTHS
from morrow.readers.files import scan, translate_errors
from morrow.readers.files.file_frames import collect_batches, list_written_fields, make_source
from morrow.readers.masks.live_rows import Mask, compute_live_masks, read_deletion

BATCH_ROWS = 1 << 17


@dataclass(frozen=True)
class Retyped:
    """A column of a data file, and its type in a schema."""

    plan: ScanPlan
    facts: FileFacts
    written: t.DataField
    wanted: t.DataField
    schema_id: int

    @property
    def cast(self) -> Cast:
        change = TypeChange((self.wanted.name,), self.facts.schema.id, self.schema_id)
        return Cast(self.written.type, self.wanted.type, where=self.facts.file.path, change=change)

    def values(self, store: FileStore, live: Mask = None) -> Iterator[pa.Array]:
        """Read the values batch by batch, in the file's type: of the rows `live`, or (None) of all rows that no
        deletion vector marks as dead.

        Raises as `translate_errors`.
        """
        file, start = self.facts.file, 0
        if live is None and file.deletion is not None:
            live = read_deletion(file, store)
        with translate_errors(file.path):
            for batch in collect_batches(scan([make_source(file, self.plan, store)], [self.written]), BATCH_ROWS):
                values = batch.to_series()
                if live is not None:
                    values, start = values.filter(live[start : start + len(values)]), start + len(values)
                yield to_arrow_array(values, self.written.type)

    def bounds(self) -> pa.Array | None:
        """Return the least and greatest value, if metadata has them and they decide whether a cast loses values."""
        decide = self.written.type.__class__ in BITS and isinstance(self.wanted.type, (*BITS, t.DecimalType))
        known = self.facts.values.get(self.written.name)
        if not decide or known is None or known.minimum is None or known.maximum is None:
            return None
        ends = [end.cast(to_polars_dtype(self.written.type)) for end in (known.minimum, known.maximum)]
        return to_arrow_array(pl.concat([end.alias(self.written.name) for end in ends]), self.written.type)


def find_unreadable(metadata: TableMetadata, plan: ScanPlan) -> Iterator[Unsupported]:
    """Yield the read error for each column of each live file with a value that the newest type cannot hold.

    Raises `CorruptFile`, `FileMissing`, `StorageError`, `UnsafePath`: a file cannot be read at all.
    """
    for column in _find_retyped(metadata, plan, metadata.latest_schema(), None):
        try:
            for values in column.values(metadata.store, _find_live(column, metadata.store)):
                apply(values, column.cast)
        except Unsupported as error:
            yield error


def _find_live(column: Retyped, store: FileStore) -> Mask:
    """Return the rows of the column's file whose values a read casts; None for all but deleted ones.

    Replaced rows of a key are not cast unless the merge combines them.
    """
    path = column.facts.file.path
    for section in column.plan.sections:
        paths = [file.path for file in section.files]
        if section.kind is SectionKind.MERGE and not column.plan.folds(section) and path in paths:
            return compute_live_masks(column.plan, section, store)[paths.index(path)]
    return None


def find_losses(
    metadata: TableMetadata, plan: ScanPlan, schema: TableSchema, ids: Collection[int]
) -> Iterator[tuple[FileFacts, Loss]]:
    """Yield a value that `schema` would change for each column of each live file, among the columns `ids`.

    Raises `Unsupported`: a cast that Java does not have. Others as `find_unreadable`.
    """
    for column in _find_retyped(metadata, plan, schema, ids):
        bounds = column.bounds()
        if bounds is not None and find_first_loss(bounds, column.cast) is None:
            continue
        for values in column.values(metadata.store, _find_live(column, metadata.store)):
            if (found := find_first_loss(values, column.cast)) is not None:
                yield column.facts, found
                break


def _find_retyped(
    metadata: TableMetadata, plan: ScanPlan, schema: TableSchema, ids: Collection[int] | None
) -> Iterator[Retyped]:
    fields = {field.id: field for field in schema.fields if ids is None or field.id in ids}
    for part in plan.parts:
        planned, files = read_file_facts(metadata, part)
        for facts in files:
            for written in list_written_fields(planned, facts.file):
                wanted = fields.get(written.id)
                if wanted is None or wanted.name in schema.partition_keys or has_same_values(written.type, wanted.type):
                    continue
                if not is_lossless(written.type, wanted.type):
                    yield Retyped(planned, facts, written, wanted, schema.id)


TEXTS = (t.CharType, t.VarCharType)
BYTES = (t.BinaryType, t.VarBinaryType)
NESTED = (t.ArrayType, t.MapType, t.MultisetType, t.RowType, t.VectorType)
TIMES = (t.TimestampType, t.LocalZonedTimestampType)
WHOLE_BITS: dict[type[t.DataType], int] = {t.FloatType: 24, t.DoubleType: 53}
"""The maximum bits of whole numbers that each type holds exactly."""
EXACT_DIGITS: dict[type[t.DataType], int] = {t.FloatType: 6, t.DoubleType: 15}
"""The number of decimal digits that each type always preserves."""
BITS = dict(zip(WIDTHS, (8, 16, 32, 64), strict=True))


@dataclass(frozen=True)
class Loss:
    """A value that a cast changes, with the path of its column or member, and the result of the cast.

    `breaks`: the cast fails, as every read of the value would.
    """

    path: Path
    source: t.DataType
    target: t.DataType
    value: object
    made: object
    breaks: bool = False

    def __str__(self) -> str:
        what = f"cannot be read as {self.target}" if self.breaks else f"would become {self.made!r} as {self.target}"
        return f"{format_path(self.path)} is {self.source}, and {self.value!r} {what}"


def is_lossless(source: t.DataType, target: t.DataType) -> bool:
    """Return whether a cast between the types preserves every possible value."""
    if has_same_values(source, target):
        return True
    goal = target.__class__
    if isinstance(source, TEXTS) and isinstance(target, TEXTS):
        return source.length <= target.length
    if isinstance(source, BYTES) and isinstance(target, BYTES):
        return source.length <= target.length
    if target == t.VarCharType(nullable=target.nullable):
        return not isinstance(source, (*NESTED, *BYTES))
    if isinstance(source, t.BooleanType):
        return goal in BITS or goal in WHOLE_BITS
    if (bits := BITS.get(source.__class__)) is not None:
        if isinstance(target, t.DecimalType):
            return target.precision - target.scale >= WHOLE_DIGITS[source.__class__]
        return bits <= BITS.get(goal, 0) or bits <= WHOLE_BITS.get(goal, 0)
    if isinstance(source, t.DecimalType):
        if isinstance(target, t.DecimalType):
            grows = target.precision - target.scale >= source.precision - source.scale
            return grows and target.scale >= source.scale
        return source.precision <= EXACT_DIGITS.get(goal, 0)
    if isinstance(target, TIMES):
        if target.precision > t.ARROW_MICROS_PRECISION:  # nanoseconds reach from 1677 to 2262 only
            return False
        return isinstance(source, t.DateType) or (isinstance(source, TIMES) and source.precision <= target.precision)
    return isinstance(source, t.FloatType) and goal is t.DoubleType


def find_first_loss(array: pa.Array, cast: Cast) -> Loss | None:
    """Return a value that the cast changes, or None if it preserves all values; nested types are compared by member.

    Raises `Unsupported`: a cast that Java does not have.
    """
    source, target = cast.source, cast.target
    if is_lossless(source, target):
        return None
    if isinstance(source, t.RowType) and isinstance(target, t.RowType):
        kinds = {field.id: field for field in target.fields}
        for field, values in zip(source.fields, array.flatten(), strict=True):
            if (new := kinds.get(field.id)) is not None:
                found = find_first_loss(values, cast.inside(new.name, field.type, new.type))
                if found is not None:
                    return found
        return None
    if isinstance(source, t.ArrayType) and isinstance(target, t.ArrayType):
        return find_first_loss(array.flatten(), cast.inside(ELEMENT, source.element, target.element))
    if isinstance(source, t.MapType) and isinstance(target, t.MapType):
        return find_first_loss(array.items, cast.inside(VALUE, source.value, target.value))
    return _find_value_loss(array, cast)


def _find_value_loss(array: pa.Array, cast: Cast) -> Loss | None:
    path = () if cast.change is None else cast.change.path
    try:
        made = apply(array, cast)
    except Unsupported:
        if resolve(cast.source, cast.target) is None:
            raise
        return Loss(path, cast.source, cast.target, _find_unreadable_value(array, cast), None, breaks=True)
    of_text = isinstance(cast.source, TEXTS) and not isinstance(cast.target, TEXTS)
    is_kept = _is_text_kept(array, made, cast) if of_text else _is_kept(array, made, cast)
    lost = pc.and_(array.is_valid(), pc.invert(pc.fill_null(pc.and_(made.is_valid(), is_kept), False)))
    at = pc.index(lost, pa.scalar(True)).as_py()
    if at < 0:
        return None
    return Loss(path, cast.source, cast.target, show_value(array[at : at + 1]), show_value(made[at : at + 1]))


def _find_unreadable_value(array: pa.Array, cast: Cast) -> object:
    """Return the first value that cannot be cast."""
    while len(array) > 1:
        half = len(array) // 2
        try:
            apply(array[:half], cast)
            array = array[half:]
        except Unsupported:
            array = array[:half]
    return show_value(array)


EXACT = Context(prec=1000)
"""The digits that are compared; no number type has as many."""
LEADING_ZERO = re.compile(r"[+-]?0[0-9]")
NO_TIME = r"^[^ T:]*([ T][0:]*(\.0*)?)?$"
"""Texts of dates without a time of day other than midnight."""


def _is_text_kept(array: pa.Array, made: pa.Array, cast: Cast) -> pa.Array:
    """Return for each text whether a value of another type preserved it."""
    target = cast.target
    if isinstance(target, BYTES):
        return pc.less_equal(pc.binary_length(array), target.length)
    if isinstance(target, t.DateType):
        return pc.match_substring_regex(array, NO_TIME)
    if isinstance(target, TIMES):
        return pc.match_substring_regex(array, rf"^[^.]*(\.[0-9]{{0,{target.precision}}}0*)?[^.0-9]*$")
    if target.__class__ not in (*BITS, *WHOLE_BITS, t.DecimalType):
        return made.is_valid()
    back = apply(made, replace(cast, source=target, target=t.VarCharType(), change=None))
    said, kept = (map_distinct(each, _normalize_number, pa.string()) for each in (array, back))
    return pc.equal(said, kept)


def _normalize_number(text: str | None) -> str | None:
    """Return a text that is the same for texts of equal numbers; other texts, and 007, are unchanged."""
    if text is None or LEADING_ZERO.match(text):
        return text
    try:
        return str(EXACT.plus(EXACT.create_decimal(text).normalize(EXACT)))
    except InvalidOperation:
        return text


def _is_kept(array: pa.Array, made: pa.Array, cast: Cast) -> pa.Array:
    """Return for each value whether the cast preserved it."""
    source, target = cast.source, cast.target
    if isinstance(target, TEXTS) and not isinstance(source, NESTED):
        text = t.VarCharType()
        whole = apply(array, replace(cast, target=text))
        blanks = " " if isinstance(target, t.CharType) else ""  # padding added by CHAR is not part of a value
        is_whole = pc.equal(pc.utf8_rtrim(whole, blanks), pc.utf8_rtrim(made, blanks))
        if not isinstance(source, BYTES):
            return is_whole
        return pc.and_(is_whole, pc.equal(apply(whole, replace(cast, source=text, target=source)), array))
    if isinstance(target, BYTES) and isinstance(source, BYTES):
        return pc.less_equal(pc.binary_length(array), target.length)
    if source.__class__ in BITS and target.__class__ in WHOLE_BITS:
        doubles = made.cast(pa.float64())
        inside = pc.less(doubles, float(2**63))
        whole = pc.if_else(inside, doubles, 0.0).cast(pa.int64(), safe=False)
        return pc.and_(inside, pc.equal(whole, array.cast(pa.int64())))
    if resolve(target, source) is None:
        return pa.array([False]).take(pa.array([0] * len(array)))
    back = apply(made, replace(cast, source=target, target=source))
    if pa.types.is_floating(array.type):
        return pc.or_(pc.equal(back, array), pc.and_(pc.is_nan(back), pc.is_nan(array)))
    return pc.equal(back, array)
