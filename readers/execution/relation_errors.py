"""DuckDB relations whose results raise Morrow's errors, and end at once on Ctrl-C.

The class of a relation that DuckDB made is exchanged: DuckDB's queries and functions still take it for their own.
Methods that run the query are wrapped. Methods that add a step are DuckDB's: they look for variables in the frame of
their caller, and raise DuckDB's own errors for a wrong step.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pyarrow as pa

from morrow.readers.expressions.library import of_query, query_errors, read_stream, run_query

READERS = ("to_arrow_reader", "fetch_arrow_reader", "fetch_record_batch")
"""Methods whose result runs the query while it is read."""
RESULTS = (
    *("fetchall", "fetchnumpy", "fetchdf", "df", "to_df", "to_dicts", "torch", "tf", "pl"),
    *("arrow", "to_arrow_table", "fetch_arrow_table", *READERS, "iter_rows", "__arrow_c_stream__"),
    *("show", "preview", "__repr__", "__str__", "_repr_mimebundle_", "__len__", "shape", "explain", "materialize"),
    *("to_csv", "write_csv", "to_parquet", "write_parquet", "create", "to_table", "insert", "insert_into", "update"),
)


class TypedRelation(duckdb.DuckDBPyRelation):
    """A relation whose results raise Morrow's errors, as do those of relations made from it."""

    __slots__ = ()

    def _derive(self, *args: Any, **options: Any) -> duckdb.DuckDBPyRelation:
        return typed(super()._derive(*args, **options))


def typed(relation: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """Return the same relation with the class `TypedRelation`."""
    relation.__class__ = TypedRelation
    return relation


def _result(call: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(call)
    def run(relation: duckdb.DuckDBPyRelation, *args: Any, **options: Any) -> Any:
        found = _typed_errors(relation, lambda: call(relation, *args, **options))
        if name in READERS:
            batches = _batches(read_stream(relation._con, found))
            return pa.RecordBatchReader.from_batches(found.schema, batches)
        if name == "iter_rows":
            return _batches(found)
        return typed(found) if isinstance(found, duckdb.DuckDBPyRelation) else found

    return run


def _batches(found: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from found
    except query_errors() as error:
        raise of_query(error) from error


def _typed_errors(relation: duckdb.DuckDBPyRelation, call: Callable[[], Any]) -> Any:
    try:
        return run_query(relation._con, call)
    except query_errors() as error:
        raise of_query(error) from error


for _name in RESULTS:
    _found = getattr(duckdb.DuckDBPyRelation, _name, None)
    if isinstance(_found, property):
        setattr(TypedRelation, _name, property(_result(_found.fget, _name)))  # type: ignore[arg-type]
    elif _found is not None:
        setattr(TypedRelation, _name, _result(_found, _name))
