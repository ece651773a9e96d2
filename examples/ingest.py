"""The writing part of `make demo`: two feeds of one week of earthquakes become one partial-update table.

Each feed has its own columns of the same events. With deletion vectors, each commit is visible at once, and
reads do not merge. At the end, the table is compared with a join of the two files.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

import morrow
from morrow.engine.units import format_count

DATA = Path(__file__).with_name("data")
COLUMNS = """
    id STRING NOT NULL COMMENT 'event id of the seismic network',
    time TIMESTAMP(3), type STRING, place STRING, latitude DOUBLE, longitude DOUBLE, depth DOUBLE,
    magnitude DOUBLE, magnitude_type STRING, status STRING, updated TIMESTAMP(3),
    felt INT, cdi DOUBLE, mmi DOUBLE, alert STRING, significance INT
"""
OPTIONS = {
    "bucket": "1",
    "merge-engine": "partial-update",
    "deletion-vectors.enabled": "true",
    # The catalogue revises events: the newest revision counts, whichever arrives last.
    "fields.updated.sequence-group": "time,type,place,latitude,longitude,depth,magnitude,magnitude_type,status",
}
TIMES = ("time", "updated")


def ingest(folder: Path) -> None:
    """Create the table, feed it day by day, compact it, and read it."""
    located, felt = (feed(name) for name in ("earthquakes.csv", "felt_reports.csv"))
    catalog = morrow.Catalog(folder)
    table = catalog.create_table("seismic.events", schema=COLUMNS, primary_keys=["id"], options=OPTIONS)

    for (day,), events in located.sort("time").group_by(pl.col("time").dt.date(), maintain_order=True):
        table.upsert(events)
        print(f"{day}: {events.height} events located. {state(table)}")
    table.upsert(felt)
    print(f"{felt.height} events felt by people. {state(table)}")
    table.compact(full=True)
    print(f"Full compaction. {state(table)}")
    # Old revisions that come late: the sequence group keeps the newer ones.
    table.upsert(located.head(20).with_columns(pl.col("updated").dt.offset_by("-1d"), magnitude=pl.lit(9.9)))
    print(f"20 stale revisions. {state(table)}\n")

    strongest = table.scan(["id", "place", "magnitude", "felt", "alert"], "felt > 100").to_polars()
    print(strongest.sort("magnitude", descending=True).head(5))
    check(table, located, felt)


def state(table: morrow.Table) -> str:
    """Describe the files of the newest snapshot."""
    scan = table.scan()
    dead = sum(file.deletion.cardinality or 0 for file in scan.plan.files if file.deletion)
    return (
        f"{scan.count():,} rows of {scan.plan.stored_rows:,} in {format_count(len(scan.plan.files), 'file')}, {dead} "
        "dead"
    )


def feed(name: str) -> pl.DataFrame:
    """Read the file of a feed, with its times as timestamps."""
    rows = pl.read_csv(DATA / name, infer_schema_length=None)
    return rows.with_columns(pl.col(c).str.to_datetime(time_unit="ms") for c in TIMES if c in rows.columns)


def check(table: morrow.Table, located: pl.DataFrame, felt: pl.DataFrame) -> None:
    """Check that the table is the join of the two files. Raises AssertionError."""
    expected = located.join(felt, on="id", how="full", coalesce=True).sort("id")
    actual = table.scan().to_polars().sort("id")
    expected = expected.select(actual.columns).cast(dict(actual.schema))
    assert actual.equals(expected), f"the table is not the join of its feeds: {actual}, {expected}"
    print(f"  [{actual.height:,} events, equal to a join of the two files]")
