"""pypaimon's MERGE INTO over Morrow's merge: clauses of pypaimon become clauses of `morrow.Table.merge`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa

from morrow.engine.errors import ColumnNotFound, InvalidArgument, Unsupported
from morrow.engine.format.schema import TRACKED
from morrow.engine.library_versions import import_array
from morrow.engine.names import SOURCE, TARGET, col
from morrow.writers.operations.merge import (
    DELETE,
    INSERT,
    MATCHED,
    UNMATCHED,
    UPDATE,
    Clause,
    CompiledMerge,
    compile_merge,
)
from morrow.writers.target import WriteTarget

ALL = "*"
_TEXT_OR_COLUMN = re.compile(r"('(?:[^']|'')*')|\b([st])\.(\w+)\b")
_SIDES = {"s": SOURCE, "t": TARGET}


@dataclass(frozen=True)
class SourceColumnRef:
    """A column of the source."""

    column: str


@dataclass(frozen=True)
class TargetColumnRef:
    """A column of the table."""

    column: str


@dataclass(frozen=True)
class LiteralValue:
    """A value for all rows."""

    value: Any


source_col, target_col, lit = SourceColumnRef, TargetColumnRef, LiteralValue


class WhenMatched:
    """A clause for rows of the table with a match: an update, or a deletion.

    Made by ``WhenMatched.update({...})`` and ``WhenMatched.delete()``. An update maps columns to ``source_col(...)``,
    ``target_col(...)``, ``lit(...)`` or values; ``"*"`` is all columns. `condition` is SQL about ``s.x`` and ``t.x``.
    """

    def __init__(self, action: str, *, update: Any = None, condition: str | None = None) -> None:
        if action not in (UPDATE, DELETE):
            raise InvalidArgument(f"the action of WhenMatched is 'update' or 'delete', not {action!r}")
        if (action == UPDATE) != (update is not None):
            raise InvalidArgument("WhenMatched: give the columns of an update, and none for a delete")
        self.values, self.condition, self.deletes = update, condition, action == DELETE
        vars(self).update(update=update, delete=self.deletes)  # an instance has values of these names

    @classmethod
    def update(cls, update: Any = ALL, condition: str | None = None) -> WhenMatched:
        """Return a clause that sets columns."""
        return cls(UPDATE, update=update, condition=condition)

    @classmethod
    def delete(cls, condition: str | None = None) -> WhenMatched:
        """Return a clause that deletes the row."""
        return cls(DELETE, condition=condition)


@dataclass(frozen=True)
class WhenNotMatched:
    """A clause for rows of the source without a match. `insert` and `condition` as in `WhenMatched`."""

    insert: Any
    condition: str | None = None


def compile_clauses(
    target: WriteTarget,
    source: Any,
    on: Sequence[str] | Mapping[str, str],
    when_matched: Sequence[WhenMatched],
    when_not_matched: Sequence[WhenNotMatched],
) -> CompiledMerge:
    """Return the merge that the clauses describe.

    Args:
        source: an Arrow table, a pandas frame, or a table of `morrow.compat.pypaimon`.
        on: columns that both sides have, or columns of the table with the source's columns.

    Raises:
        InvalidArgument: unreachable clauses, or an update of partition columns. Others as `compile_merge`.
    """
    pairs = dict(on) if isinstance(on, Mapping) else {name: name for name in on}
    if not pairs:
        raise InvalidArgument("'on' must be non-empty")
    for clauses in (when_matched, when_not_matched):
        if any(clause.condition is None for clause in clauses[:-1]):
            raise InvalidArgument("only the last clause may omit its condition: those after it are unreachable")
    found = [
        *(_translate_matched(target, pairs, clause) for clause in when_matched),
        *(_translate_insert(target, pairs, clause) for clause in when_not_matched),
    ]
    keys = _list_conditions(pairs) if any(mine != theirs for mine, theirs in pairs.items()) else tuple(pairs)
    return compile_merge(target, _read_source(source, pairs), keys, found)


def _read_source(source: Any, pairs: Mapping[str, str]) -> Any:
    if not hasattr(source, "morrow"):
        return source
    table = source.morrow
    hidden = [field.name for field in TRACKED if field.name in pairs.values()]
    return table.scan([*table.schema.names, *hidden]).to_arrow()


def _list_conditions(pairs: Mapping[str, str]) -> str:
    return " AND ".join(f"{_quote(TARGET, mine)} = {_quote(SOURCE, theirs)}" for mine, theirs in pairs.items())


def _quote(side: str, column: str) -> str:
    escaped = column.replace('"', '""')
    return f'{side}."{escaped}"'


def _translate_matched(target: WriteTarget, pairs: Mapping[str, str], clause: WhenMatched) -> Clause:
    condition = _translate_condition(clause.condition)
    if clause.deletes:
        return Clause(MATCHED, DELETE, None, condition)
    values = dict(_translate_values(target, pairs, clause.values))
    moved = sorted(set(target.schema.partition_keys) & set(values))
    if moved:
        raise InvalidArgument(f"merge_into does not support updating partition columns {moved}")
    return Clause(MATCHED, UPDATE, values, condition)


def _translate_insert(target: WriteTarget, pairs: Mapping[str, str], clause: WhenNotMatched) -> Clause:
    if clause.condition is not None and any(side == "t" for _, side, _ in _TEXT_OR_COLUMN.findall(clause.condition)):
        raise InvalidArgument("the condition of WhenNotMatched must not name columns of the table (t.*)")
    values = dict(_translate_values(target, pairs, clause.insert, reads_target=False))
    keys = {mine: col(f"{SOURCE}.{theirs}") for mine, theirs in pairs.items() if mine in target.schema.by_name}
    return Clause(UNMATCHED, INSERT, {**keys, **values}, _translate_condition(clause.condition))


def _translate_values(
    target: WriteTarget, pairs: Mapping[str, str], given: Any, *, reads_target: bool = True
) -> Iterator[tuple[str, pl.Expr]]:
    if isinstance(given, str) and given == ALL:
        given = {name: SourceColumnRef(pairs.get(name, name)) for name in target.schema.by_name}
    if not isinstance(given, Mapping) or not given:
        raise InvalidArgument(f"the columns to set are '*' or a mapping that is not empty, not {given!r}")
    for name, value in given.items():
        if name not in target.schema.by_name:
            raise ColumnNotFound(f"{target.where}: the SET spec names the unknown target column {name!r}")
        if callable(value):
            raise Unsupported("a function of rows as a value of merge_into", where=target.where, hint="use an update")
        if isinstance(value, str) and value[:2] in ("s.", "t."):
            value = SourceColumnRef(value[2:]) if value[0] == "s" else TargetColumnRef(value[2:])
        if isinstance(value, TargetColumnRef):
            if not reads_target:
                raise InvalidArgument(f"an insert must not name columns of the table, but {value.column!r} is one")
            if value.column != name:
                yield name, col(f"{TARGET}.{value.column}")
        elif isinstance(value, SourceColumnRef):
            yield name, col(f"{SOURCE}.{value.column}")
        else:
            literal = value.value if isinstance(value, LiteralValue) else value
            kind = target.schema.by_name[name].type.arrow()
            yield name, pl.lit(import_array(pa.array([literal], kind))).first()


def _translate_condition(condition: str | None) -> str | None:
    """Return the SQL with Morrow's names of both sides; texts in it stay."""
    if condition is None:
        return None
    return _TEXT_OR_COLUMN.sub(lambda found: found[1] or _quote(_SIDES[found[2]], found[3]), condition)
