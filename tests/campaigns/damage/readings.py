"""The reads of a table before and after one of its files is damaged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

import morrow
from morrow.engine.errors import MorrowError

INT_BITS = 32
Answer: TypeAlias = "pa.Table | int"


@dataclass(frozen=True)
class Reading:
    """A read of the table in a folder, with a name for the outcome.

    If `exact` is False, any result is accepted after a damage, since only the damaged file has the right one.
    """

    name: str
    ask: Callable[[Path], Answer]
    exact: bool = True


def is_same(one: Answer, other: Answer) -> bool:
    """Return whether two results have the same rows in the same columns, in any order."""
    if isinstance(one, int) or isinstance(other, int):
        return one == other
    if one.schema != other.schema or one.num_rows != other.num_rows:
        return False
    return one.equals(other) or lines(one) == lines(other)


def is_renamed(one: Answer, other: Answer) -> bool:
    """Return whether two results have the same rows, although some columns have other names."""
    if isinstance(one, int) or isinstance(other, int) or one.num_columns != other.num_columns:
        return False
    return is_same(one.rename_columns(other.schema.names), other)


def lines(table: pa.Table) -> list[str]:
    """List the rows as sorted text, with times and dates as numbers, since damaged ones may be invalid in Python."""
    numbers = table.cast(pa.schema([field.with_type(_as_numbers(field.type)) for field in table.schema]))
    return sorted(map(repr, zip(*(column.to_pylist() for column in numbers.columns))))


def _as_numbers(kind: pa.DataType) -> pa.DataType:
    """Replace times and dates in a type by numbers, at any depth."""
    if pa.types.is_temporal(kind):
        return pa.int32() if kind.bit_width == INT_BITS else pa.int64()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_as_numbers(field.type)).with_nullable(True) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_as_numbers(kind.key_type), _as_numbers(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_as_numbers(kind.value_type)))
    return kind


@lru_cache(maxsize=64)
def newest(sound: Path) -> tuple[Reading, ...]:
    """Count all rows (first, as a cold count reads no data), read them, and read the rows of some filters."""
    return (
        Reading("count", lambda path: morrow.open(path).scan().count()),
        Reading("arrow", lambda path: morrow.open(path).scan().to_arrow()),
        *filtered(sound),
    )


def filtered(sound: Path) -> list[Reading]:
    """Read the rows that equal or exceed a value of some row, in key columns and others."""
    table = morrow.open(sound)
    rows = table.scan().to_arrow()
    plain = [field.name for field in rows.schema if _is_plain(field.type)]
    keys = [name for name in (*table.partition_keys, *table.primary_keys) if name in plain]
    others = [name for name in plain if name not in keys]
    random = Random(sound.parts[-4])  # the case's name
    readings = []
    for number, name in enumerate([*keys[:2], *others[:2]]):
        values = rows[name].drop_null()
        if len(values):
            value = values[random.randrange(len(values))].as_py()
            sign, condition = (">", pc.field(name) > value) if number % 2 else ("=", pc.field(name) == value)
            readings.append(Reading(f"{name} {sign} {value!r}", _filtered(condition)))
    return readings


def narrowed(sound: Path, _file: str) -> list[Reading]:
    """Read with fewer rows or columns, skipping the others by statistics without looking at them."""
    names = morrow.open(sound).scan().to_arrow().schema.names
    return [
        Reading("count", lambda path: morrow.open(path).scan().count()),
        Reading("limit", lambda path: len(morrow.open(path).scan(limit=7).to_arrow())),
        *(Reading(f"only {name}", _projected(name)) for name in (names[0], names[-1])),
        *filtered(sound),
    ]


def _projected(name: str) -> Callable[[Path], Answer]:
    return lambda path: morrow.open(path).scan(columns=[name]).to_arrow()


def _filtered(condition: pc.Expression) -> Callable[[Path], Answer]:
    return lambda path: morrow.open(path).scan(filter=condition).to_arrow()


def _is_plain(dtype: pa.DataType) -> bool:
    return pa.types.is_integer(dtype) or pa.types.is_string(dtype) or pa.types.is_large_string(dtype)


def as_of(what: str, value: Any) -> list[Reading]:
    """Read and count the rows of a tag, a snapshot or a branch: `Table.scan` with ``what=value``."""
    options: dict[str, Any] = {what: value}
    return [
        Reading(f"count {what}={value}", lambda path: morrow.open(path).scan(**options).count()),
        Reading(f"arrow {what}={value}", lambda path: morrow.open(path).scan(**options).to_arrow()),
    ]


def changes(_sound: Path) -> list[Reading]:
    """Read the changes since the oldest one that is left."""
    return [Reading("changes", lambda path: morrow.open(path).changes().to_arrow())]


def system(name: str) -> Sequence[Reading]:
    """Read a system table, whatever its content."""
    return [Reading(f"${name}", lambda path: morrow.open(path).system(name).to_arrow(), exact=False)]


def rows(sound: Path, _file: str) -> list[Reading]:
    """Read all rows, at once and in batches, and the rows of some filters."""
    return [
        Reading("arrow", lambda path: morrow.open(path).scan().to_arrow()),
        Reading("batches", lambda path: morrow.open(path).scan().to_reader().read_all()),
        *filtered(sound),
    ]


def checked(_sound: Path, _file: str) -> list[Reading]:
    """Read all rows with page checksums, but without filters, which would rely on unprotected footers."""
    return [
        Reading("arrow", lambda path: morrow.open(path, verify="pages").scan().to_arrow()),
        Reading("batches", lambda path: morrow.open(path, verify="pages").scan().to_reader().read_all()),
    ]


def verified(_sound: Path, _file: str) -> list[Reading]:
    """Verify a table, then read it: a missed damage shows as different rows or as an error of the read."""

    def ask(path: Path) -> Answer:
        scan = morrow.open(path).scan()
        scan.verify()
        try:
            return scan.to_arrow()
        except MorrowError as error:
            raise AssertionError(f"verified, and then refused: {error}") from error

    return [Reading("verify", ask)]
