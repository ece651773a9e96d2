"""A player with pypaimon's interface: pypaimon itself in its own environment, or `morrow.compat.pypaimon`.

As a script, it answers calls of the campaign: ``(method, arguments)``, with ``(True, result)`` or ``(False, error)``.
It must not import Morrow.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from multiprocessing.connection import Client
from typing import Any

import pyarrow as pa

NAME = "db.t"
ROW_ID, SEQUENCE = "_ROW_ID", "_SEQUENCE_NUMBER"
Rows = Sequence[Mapping[str, Any]]


class Player:
    """A player that opens the table again for each step, and holds the messages of one prepared step."""

    def __init__(self, module: str, warehouse: str) -> None:
        self.module, self.warehouse = module, warehouse
        self.held: tuple[Any, Any] | None = None
        self.changes = import_module(f"{module}.schema.schema_change").SchemaChange

    def open(self) -> Any:
        factory = import_module(self.module).CatalogFactory
        return factory.create({"warehouse": self.warehouse}).get_table(NAME)

    def _catalog(self) -> Any:
        return import_module(self.module).CatalogFactory.create({"warehouse": self.warehouse})

    def create(self, schema: bytes, partitions: list[str], options: dict[str, str]) -> None:
        made = import_module(self.module).Schema.from_pyarrow_schema(
            pa.ipc.read_schema(pa.py_buffer(schema)), partition_keys=partitions, options=options
        )
        catalog = self._catalog()
        catalog.create_database("db", True)
        catalog.create_table(NAME, made, False)

    # --- steps: each holds its messages until `commit` ---

    def commit(self) -> None:
        """Commit the held messages."""
        assert self.held is not None
        builder, messages = self.held
        self.held = None
        builder.new_commit().commit(messages)

    def at_once(self, method: str, *arguments: Any) -> None:
        """Take a step and commit it; messages that were held before stay."""
        held, self.held = self.held, None
        try:
            getattr(self, method)(*arguments)
            self.commit()
        finally:
            self.held = held

    def append(self, rows: Rows) -> None:
        self._write(self.open().new_batch_write_builder(), rows)

    def overwrite(self, rows: Rows, partition: dict[str, Any]) -> None:
        self._write(self.open().new_batch_write_builder().overwrite(partition), rows)

    def _write(self, builder: Any, rows: Rows) -> None:
        writer = builder.new_write()
        writer.write_arrow(self._table(rows))
        self.held = builder, writer.prepare_commit()

    def _table(self, rows: Rows, names: Sequence[str] | None = None) -> pa.Table:
        schema = self._schema()
        fields = [schema.field(name) for name in names or schema.names if name != ROW_ID]
        if names and ROW_ID in names:
            fields.append(pa.field(ROW_ID, pa.int64()))
        return pa.Table.from_pylist([dict(row) for row in rows], pa.schema(fields))

    def _schema(self) -> pa.Schema:
        table = self.open()
        if hasattr(table, "morrow"):
            return table.morrow.schema
        parser = import_module(f"{self.module}.schema.data_types").PyarrowFieldParser
        return parser.from_paimon_schema(table.fields)

    def update_ids(self, rows: Rows, names: list[str]) -> None:
        builder = self.open().new_batch_write_builder()
        update = builder.new_update().with_update_type(names)
        data = self._table(rows, [*names, ROW_ID])
        self.held = builder, update.update_by_arrow_with_row_id(data)

    def update_where(self, ids: list[int], values: dict[str, Any]) -> None:
        builder = self.open().new_batch_write_builder()
        update = builder.new_update()
        condition = update.new_predicate_builder().is_in("id", ids)
        self.held = builder, update.update_by_predicate(condition, values)

    def upsert(self, rows: Rows) -> None:
        builder = self.open().new_batch_write_builder()
        data = self._table(rows)
        self.held = builder, builder.new_update().upsert_by_arrow_with_key(data, ["id"])

    def merge(self, rows: Rows, names: list[str]) -> None:
        """Update these columns of the rows with the same id, and insert the other rows."""
        merge = import_module(f"{self.module}.table.data_evolution_merge_into")
        builder = self.open().new_batch_write_builder()
        data = self._table(rows)
        matched = merge.WhenMatched("update", update={name: merge.source_col(name) for name in names})
        inserted = merge.WhenNotMatched(insert="*")
        messages = builder.new_update().merge_into(data, on=["id"], when_matched=[matched], when_not_matched=[inserted])
        self.held = builder, messages

    def delete_where(self, ids: list[int]) -> None:
        builder = self.open().new_batch_write_builder()
        update = builder.new_update()
        self.held = builder, update.delete_by_predicate(update.new_predicate_builder().is_in("id", ids))

    def delete_ids(self, row_ids: list[int]) -> None:
        builder = self.open().new_batch_write_builder()
        self.held = builder, builder.new_update().delete_by_row_id(row_ids)

    def shard(self, name: str, value: Any) -> None:
        """Set a column of all rows."""
        builder = self.open().new_batch_write_builder()
        update = builder.new_update().with_update_type([name])
        update.with_read_projection(["id", name])
        shard = update.new_shard_updator(0, 1)
        kind = self._schema().field(name).type
        for batch in shard.arrow_reader():
            shard.update_by_arrow_batch(pa.record_batch({name: pa.array([value] * batch.num_rows, kind)}))
        self.held = builder, shard.prepare_commit()

    # --- steps that commit at once ---

    def truncate(self) -> None:
        self.open().new_batch_write_builder().new_commit().truncate_table()

    def alter(self, change: str, *arguments: Any) -> None:
        made = getattr(self.changes, change)
        if change == "add_column":
            kind = import_module(f"{self.module}.schema.data_types").AtomicType(arguments[1])
            arguments = (arguments[0], kind)
        self._catalog().alter_table(NAME, [made(*arguments)], False)

    def read(self, names: list[str], ids: list[int] | None = None) -> list[dict[str, Any]]:
        """Return rows, with these ids if given, in these columns."""
        builder = self.open().new_read_builder().with_projection(names)
        if ids is not None:
            builder = builder.with_filter(builder.new_predicate_builder().is_in("id", ids))
        read = builder.new_read().to_arrow(builder.new_scan().plan().splits())
        return read.to_pylist() if read is not None else []


def main(address: str, module: str, warehouse: str) -> None:
    player = Player(module, warehouse)
    with Client(address, "AF_UNIX") as connection:
        while (call := connection.recv()) is not None:
            if call[0] == "begin":
                player = Player(module, call[1])
                connection.send((True, None))
                continue
            try:
                answer = True, getattr(player, call[0])(*call[1:])
            except Exception as error:  # noqa: BLE001  # the campaign judges it
                answer = False, f"{type(error).__name__}: {error}"
            connection.send(answer)


if __name__ == "__main__":
    main(*sys.argv[1:])
