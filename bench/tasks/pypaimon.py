"""The ten tasks with pypaimon."""

import pyarrow as pa
import pyarrow.compute as pc
from pypaimon import CatalogFactory, Schema
from pypaimon.schema.data_types import AtomicType
from pypaimon.schema.schema_change import SchemaChange

NAME = "pypaimon"
IMPOSSIBLE = {
    "aggregate": "no lazy frame; rows are read whole, then aggregated",
    "changes": "reads of changes are by time, and give appended rows without kinds",
    "compact": "no compaction of primary-key tables, and no expiry",
}


def everything(folder):
    builder = CatalogFactory.create({"warehouse": folder}).get_table("db.t").new_read_builder()
    return builder.new_read().to_arrow(builder.new_scan().plan().splits())


def create(folder, rows):
    catalog = CatalogFactory.create({"warehouse": folder})
    catalog.create_database("db", True)
    schema = Schema.from_pyarrow_schema(rows.schema, primary_keys=["id"], options={"bucket": "1"})
    catalog.create_table("db.t", schema, False)
    builder = catalog.get_table("db.t").new_batch_write_builder()
    write, commit = builder.new_write(), builder.new_commit()
    write.write_arrow(rows)
    commit.commit(write.prepare_commit())
    write.close()
    commit.close()


def upsert(folder, rows):
    builder = CatalogFactory.create({"warehouse": folder}).get_table("db.t").new_batch_write_builder()
    write, commit = builder.new_write(), builder.new_commit()
    write.write_arrow(rows)
    commit.commit(write.prepare_commit())
    write.close()
    commit.close()


def read(folder):
    builder = CatalogFactory.create({"warehouse": folder}).get_table("db.t").new_read_builder()
    condition = builder.new_predicate_builder().greater_than("amount", 98)
    builder = builder.with_filter(condition).with_projection(["id", "amount"])
    return builder.new_read().to_arrow(builder.new_scan().plan().splits())


def update(folder):
    table = CatalogFactory.create({"warehouse": folder}).get_table("db.t")
    reader = table.new_read_builder()
    reader = reader.with_filter(reader.new_predicate_builder().less_than("id", 1000))
    rows = reader.new_read().to_arrow(reader.new_scan().plan().splits())
    rows = rows.set_column(2, rows.schema.field(2), pc.add(rows["amount"], 1))
    builder = table.new_batch_write_builder()
    write, commit = builder.new_write(), builder.new_commit()
    write.write_arrow(rows)
    commit.commit(write.prepare_commit())
    write.close()
    commit.close()


def delete(folder):
    catalog = CatalogFactory.create({"warehouse": folder})
    table = catalog.get_table("db.t")
    reader = table.new_read_builder()
    reader = reader.with_filter(reader.new_predicate_builder().greater_or_equal("id", 104000))
    rows = reader.new_read().to_arrow(reader.new_scan().plan().splits())
    builder = table.copy({"rowkind.field": "name"}).new_batch_write_builder()
    rows = rows.set_column(1, rows.schema.field(1), pa.array(["-D"] * rows.num_rows))
    write, commit = builder.new_write(), builder.new_commit()
    write.write_arrow(rows)
    commit.commit(write.prepare_commit())
    write.close()
    commit.close()


def travel(folder):
    table = CatalogFactory.create({"warehouse": folder}).get_table("db.t").copy({"scan.snapshot-id": "1"})
    builder = table.new_read_builder()
    return builder.new_read().to_arrow(builder.new_scan().plan().splits())


def evolve(folder, rows):
    catalog = CatalogFactory.create({"warehouse": folder})
    catalog.alter_table("db.t", [SchemaChange.add_column("note", AtomicType("STRING"))], False)
    builder = catalog.get_table("db.t").new_batch_write_builder()
    write, commit = builder.new_write(), builder.new_commit()
    write.write_arrow(rows)
    commit.commit(write.prepare_commit())
    write.close()
    commit.close()
