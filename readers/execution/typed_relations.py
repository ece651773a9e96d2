"""DuckDB relations whose steps and results raise Morrow's errors, and stop immediately on Ctrl-C.

The class of a DuckDB relation is replaced by a subclass that wraps its methods; DuckDB's queries and functions still
accept the object. DuckDB looks for variables in the innermost frame that is not its own. Methods that add a step are
therefore called from a frame with the caller's variables.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pyarrow as pa
from duckdb._relation import GroupedRelation

from morrow.readers.expressions.duckdb_queries import query_errors, read_stream, run_query, to_morrow_error

CALL = compile("morrow_call()", "<step of a relation>", "eval")
READERS = ("to_arrow_reader", "fetch_arrow_reader", "fetch_record_batch")
"""Methods whose result runs the query while it is read."""
OWN = ("duckdb.", "_duckdb", __name__)
"""Prefixes of module names that are skipped when looking for the caller."""
RESULTS = (
    *("fetchall", "fetchnumpy", "fetchdf", "df", "to_df", "to_dicts", "torch", "tf", "pl"),
    *("arrow", "to_arrow_table", "fetch_arrow_table", *READERS, "iter_rows", "__arrow_c_stream__"),
    *("show", "preview", "__repr__", "__str__", "_repr_mimebundle_", "__len__", "shape", "explain", "materialize"),
    *("to_csv", "write_csv", "to_parquet", "write_parquet", "create", "to_table", "insert", "insert_into", "update"),
)


class TypedRelation(duckdb.DuckDBPyRelation):
    """A relation whose steps and results raise Morrow's errors, and so do relations derived from it."""

    __slots__ = ()

    def _derive(self, *args: Any, **options: Any) -> duckdb.DuckDBPyRelation:
        return to_typed_relation(_in_frame_of_caller(functools.partial(super()._derive, *args, **options)))


class TypedGroups(GroupedRelation):
    """The groups of a `TypedRelation`."""


def to_typed_relation(relation: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """Return the same relation with the class `TypedRelation`."""
    relation.__class__ = TypedRelation
    return relation


def _step(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def step(subject: Any, *args: Any, **options: Any) -> Any:
        try:
            found = _in_frame_of_caller(functools.partial(call, subject, *args, **options))
        except query_errors() as error:
            raise to_morrow_error(error) from error
        if type(found) is GroupedRelation:
            found.__class__ = TypedGroups
        return to_typed_relation(found) if isinstance(found, duckdb.DuckDBPyRelation) else found

    return step


def _in_frame_of_caller(call: Callable[[], Any]) -> Any:
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(OWN):
        frame = frame.f_back
    return eval(CALL, {**frame.f_globals, **frame.f_locals, "morrow_call": call})


def _wrap_result(call: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(call)
    def run(relation: duckdb.DuckDBPyRelation, *args: Any, **options: Any) -> Any:
        found = _run_typed(relation, lambda: call(relation, *args, **options))
        if name in READERS:
            batches = _read_batches(read_stream(relation._con, found))
            return pa.RecordBatchReader.from_batches(found.schema, batches)
        if name == "iter_rows":
            return _read_batches(found)
        return to_typed_relation(found) if isinstance(found, duckdb.DuckDBPyRelation) else found

    return run


def _read_batches(found: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from found
    except query_errors() as error:
        raise to_morrow_error(error) from error


def _run_typed(relation: duckdb.DuckDBPyRelation, call: Callable[[], Any]) -> Any:
    try:
        return run_query(relation._con, call)
    except query_errors() as error:
        raise to_morrow_error(error) from error


for _typed, _base in ((TypedRelation, duckdb.DuckDBPyRelation), (TypedGroups, GroupedRelation)):
    for _name, _found in vars(_base).items():
        if _name.startswith("_") and _name not in RESULTS:
            continue
        _wrapped = functools.partial(_wrap_result, name=_name) if _name in RESULTS else _step
        if isinstance(_found, property):
            setattr(_typed, _name, property(_wrapped(_found.fget)))  # type: ignore[arg-type]
        elif callable(_found):
            setattr(_typed, _name, _wrapped(_found))
