"""Random conditions on a random table, in all languages in which Morrow accepts filters.

The expected result of a condition is computed by DuckDB, Polars or pyarrow over the table's full rows.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import polars as pl
import pyarrow.compute as pc

from tests.faces.tables import NESTED, ROW_ID, Column
from tests.support.hostile_names import quoted

Condition: TypeAlias = str | pl.Expr | pc.Expression

WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")
REAL = ("FLOAT", "DOUBLE")
TEXT = ("STRING", "VARCHAR(10)", "CHAR(3)")
FAMILIES: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(
        WHOLE, ("{c} % 2 = 0", "{c} + 1 > 2", "abs({c}) < 5", "{c} BETWEEN -1 AND 2", "{c}::VARCHAR > '1'")
    ),
    **dict.fromkeys(REAL, ("isnan({c})", "{c} * 2 > 1", "signbit({c})", "1 / {c} < 0", "{c}::VARCHAR = 'nan'")),
    **dict.fromkeys(
        TEXT,
        ("upper({c}) = 'A'", "length({c}) > 3", "{c} LIKE '%e%'", "{c} || 'x' = 'ax'", "try_cast({c} AS INT) IS NULL"),
    ),
    "BOOLEAN": ("NOT {c}", "{c}", "{c} IS NOT TRUE"),
    "DATE": ("year({c}) = 2024", "{c} + INTERVAL 1 DAY > DATE '1970-01-01'"),
    "ARRAY<INT>": ("len({c}) > 1", "list_contains({c}, 1)", "{c}[1] = 1", "{c} = [1]"),
    "ARRAY<ROW<x INT, y STRING>>": ("len({c}) > 0", "{c}[1].{x} = 1", "{c}[1].{y} IS NULL"),
    "MAP<STRING, INT>": ("cardinality({c}) = 1", "{c}['k'] = 1", "map_contains({c}, 'l')"),
    "MULTISET<STRING>": ("cardinality({c}) = 1", "{c}['a'] > 1"),
    **dict.fromkeys(
        [name for name in NESTED if name.startswith("ROW")], ("{c}.{x} = 1", "{c}.{y} = 'a'", "{c}.{x} IS NULL")
    ),
}
"""Type -> conditions on a column ``c`` with members ``x`` and ``y`` that only DuckDB can express."""
GUARDED = "CASE WHEN {c} > 0 THEN 10 / {c} > 1 ELSE false END"
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
NO_LITERALS = (*NESTED, "TIME(3)")


def sql(columns: Sequence[Column], chance: random.Random, depth: int = 0) -> str:
    """Write a condition as SQL."""
    if depth < 3 and chance.random() < 0.5:
        parts = [sql(columns, chance, depth + 1) for _ in range(chance.randrange(2, 4))]
        joined = f" {chance.choice(('AND', 'OR'))} ".join(f"({part})" for part in parts)
        return f"NOT ({joined})" if chance.random() < 0.2 else joined
    column = chance.choice([*columns, Column(ROW_ID, "INT")])
    name = quoted(column.name)
    family = FAMILIES.get(column.type, ())
    act = chance.random()
    if act < 0.15:
        return f"{name} IS {chance.choice(('', 'NOT '))}NULL"
    if family and (act < 0.5 or column.type in NO_LITERALS):
        guarded = (GUARDED,) if column.type in WHOLE else ()
        names = {"c": name, **{plain: quoted(member) for plain, member in column.members.items()}}
        return chance.choice((*family, *guarded)).format_map(names)
    if column.type in NO_LITERALS:
        return f"{name} IS NOT NULL"
    if act < 0.65:
        listed = ", ".join(literal(chance.choice(column.pool), column.type) for _ in range(chance.randrange(1, 4)))
        return f"{name} {chance.choice(('', 'NOT '))}IN ({listed})"
    return f"{name} {chance.choice(COMPARISONS)} {literal(chance.choice(column.pool), column.type)}"


def literal(value: Any, kind: str) -> str:
    """Write a value of a column as SQL."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        text = "NaN" if math.isnan(value) else "Infinity" if value == math.inf else repr(value)
        return f"'{'-Infinity' if value == -math.inf else text}'::{kind}"
    if isinstance(value, (int, Decimal)):
        return str(value)
    if isinstance(value, bytes):
        return "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB"
    if isinstance(value, dt.datetime):
        zone = "TZ" if value.tzinfo else ""
        return f"TIMESTAMP{zone} '{value.isoformat(' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    parts = value.split("\0")
    quoted = ["'" + part.replace("'", "''") + "'" for part in parts]
    return " || chr(0) || ".join(quoted) if len(parts) > 1 else quoted[0]


def polars(columns: Sequence[Column], chance: random.Random, depth: int = 0) -> pl.Expr:
    """Build a condition as a Polars expression."""
    if depth < 3 and chance.random() < 0.5:
        left, right = polars(columns, chance, depth + 1), polars(columns, chance, depth + 1)
        joined = left & right if chance.random() < 0.5 else left | right
        return ~joined if chance.random() < 0.2 else joined
    column = chance.choice(
        [c for c in columns if not c.name.startswith("^") and c.name != "*"] or [Column(ROW_ID, "INT")]
    )
    of = pl.col(column.name)
    act = chance.random()
    if act < 0.2 or column.type in NO_LITERALS:
        return of.is_null() if chance.random() < 0.5 else of.is_not_null()
    if act < 0.4 and column.type in WHOLE:
        return chance.choice((of % 2 == 0, of.is_between(-1, 2), of.cast(pl.String).str.contains("1")))
    if act < 0.4 and column.type in TEXT:
        return chance.choice((of.str.to_uppercase() == "A", of.str.len_bytes() > 3, of.str.starts_with("a")))
    if act < 0.4 and column.type in REAL:
        return chance.choice((of.is_nan(), of * 2 > 1, of.is_finite()))
    if act < 0.5:
        return of.is_in([chance.choice(column.pool) for _ in range(2)], nulls_equal=chance.random() < 0.3)
    value = pl.lit(chance.choice(column.pool))
    compared = (of == value, of != value, of < value, of <= value, of > value, of >= value, of.eq_missing(value))
    return chance.choice(compared)


def arrow(columns: Sequence[Column], chance: random.Random, depth: int = 0) -> pc.Expression:
    """Build a condition as a pyarrow expression."""
    if depth < 3 and chance.random() < 0.5:
        left, right = arrow(columns, chance, depth + 1), arrow(columns, chance, depth + 1)
        joined = left & right if chance.random() < 0.5 else left | right
        return ~joined if chance.random() < 0.2 else joined
    column = chance.choice([*columns, Column(ROW_ID, "INT")])
    of = pc.field(column.name)
    act = chance.random()
    if act < 0.2 or column.type in (*NO_LITERALS, *REAL) or column.type.startswith("DECIMAL"):
        return of.is_null() if chance.random() < 0.5 else of.is_valid()
    if act < 0.4 and column.type in TEXT:
        return chance.choice((pc.starts_with(of, "a"), pc.utf8_length(of) > 3, pc.utf8_upper(of) == "A"))
    if act < 0.4 and column.type in WHOLE:
        return chance.choice((pc.bit_wise_and(of, 1) == 0, of.isin([0, 1])))
    value = chance.choice(column.pool)
    return chance.choice((of == value, of != value, of < value, of <= value, of > value, of >= value))
