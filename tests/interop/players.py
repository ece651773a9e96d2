"""The two players of a history: Morrow through its public API, Java Paimon through the JVM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import morrow
from morrow.engine.format import types as t
from tests.interop.histories import AddColumn, Case, Compact, Delete, Step, Write
from tests.interop.jvm import JavaPaimon
from tests.support.canonical import rows_of
from tests.support.golden_values import parsed
from tests.support.hostile_names import quoted

DATABASE, TABLE = "db", "t"


def arrow(rows: list[list[Any]], fields: tuple[t.DataField, ...]) -> pa.Table:
    """Convert canonical values, without row kinds, to Arrow."""
    columns = [pa.array([_python(row[i], f.type) for row in rows], f.type.arrow()) for i, f in enumerate(fields)]
    return pa.table(columns, schema=t.to_arrow_schema(fields))


def _python(value: Any, kind: t.DataType) -> Any:
    import datetime as dt

    if isinstance(kind, t.TimestampType) and value is not None:
        return dt.datetime.fromisoformat(value)
    return parsed(value, kind)


class Morrow:
    """A player that executes steps with Morrow."""

    def __init__(self, warehouse: Path, case: Case) -> None:
        self.case = case
        self.catalog = morrow.Catalog(warehouse)
        self.path = warehouse / f"{DATABASE}.db" / TABLE

    def create(self) -> None:
        self.catalog.create_table(
            f"{DATABASE}.{TABLE}",
            schema=dict(self.case.columns),
            primary_keys=self.case.primary_keys,
            partition_keys=self.case.partition_keys,
            options=self.case.options,
        )

    @property
    def table(self) -> morrow.Table:
        return self.catalog.table(f"{DATABASE}.{TABLE}")

    @property
    def latest(self) -> int:
        snapshots = self.table.snapshots()
        return snapshots[-1].id if snapshots else 0

    def play(self, step: Step) -> bool:
        """Play a step; return whether it was possible."""
        table = self.table
        if isinstance(step, Write):
            fields = tuple(table.schemas()[-1].fields)
            kinds = [row[0] for row in step.rows]
            with table.writer() as writer:
                writer.write(arrow([row[1:] for row in step.rows], fields), kinds=kinds)
        elif isinstance(step, Compact):
            table.compact(full=step.full)
        elif isinstance(step, AddColumn):
            table.alter.add_column(step.name, step.type)
        elif isinstance(step, Delete):
            table.delete(f"{quoted(self.case.names['id'])} < {step.below}")
        return True

    def read(self, snapshot: int | None = None) -> list[list[Any]]:
        scan = self.table.scan(snapshot=snapshot)
        return rows_of(scan.to_arrow(), scan.plan.fields)

    def changes(self, snapshot: int) -> list[list[Any]]:
        """Read the changes of one snapshot, row kinds first."""
        mode = "raw" if self.case.producer == "none" else "auto"
        changes = self.table.changes(snapshot - 1, snapshot, mode=mode)
        rows = changes.to_arrow()
        fields = tuple(self.table.schemas()[-1].fields)
        kinds = rows["rowkind"].to_pylist()
        return [[kind, *row] for kind, row in zip(kinds, rows_of(rows.drop_columns("rowkind"), fields), strict=True)]


class Java:
    """A player that executes steps with Java Paimon."""

    def __init__(self, java: JavaPaimon, warehouse: Path, case: Case) -> None:
        self.java, self.warehouse, self.case = java, warehouse, case
        self.path = warehouse / f"{DATABASE}.db" / TABLE

    def create(self) -> None:
        self.java.ask(
            "create",
            warehouse=self.warehouse,
            table=f"{DATABASE}.{TABLE}",
            columns=self.case.columns,
            primary_keys=self.case.primary_keys,
            partition_keys=self.case.partition_keys,
            options=self.case.options,
        )

    def play(self, step: Step) -> bool:
        """Play a step; return False for deletes from append tables, for which Java needs Spark."""
        if isinstance(step, Write):
            self.java.write(self.path, step.rows)
        elif isinstance(step, Compact):
            unaware = not self.case.keyed and self.case.bucket == "-1"
            self.java.ask("append_compact" if unaware else "compact", path=self.path, full=step.full)
        elif isinstance(step, AddColumn):
            changes = [["add_column", step.name, step.type]]
            self.java.ask("alter", warehouse=self.warehouse, table=f"{DATABASE}.{TABLE}", changes=changes)
        return not isinstance(step, Delete)

    def read(self, snapshot: int | None = None) -> list[list[Any]]:
        return self.java.read(self.path, {} if snapshot is None else {"scan.snapshot-id": str(snapshot)})

    def stream(self) -> dict[str, list[list[Any]]]:
        """Read the rows that a stream gets from each snapshot, by its id, row kinds first."""
        found: dict[str, list[list[Any]]] = self.java.ask("stream", path=self.path, **{"from": 1})
        return found
