"""The demo, `make demo`: reads tables written by Java Paimon, and writes a table.

The tables are golden tables of the tests, unpacked into a temporary folder. Every result is compared with the rows that
Java Paimon reads, and the written table (see ingest.py) with its sources. If any row differs, the exit code is 1.
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import duckdb
import polars as pl
from rich.console import Console
from rich.rule import Rule
from rich.text import Text

import morrow
from morrow.engine.units import format_count

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from examples import ingest
from tests.support import golden  # both found through the line above
from tests.support.canonical import assert_same_rows, rows_of

MERGED, VECTORS, TAGGED = "public/pk_big", "public/dv_append", "public/tags_expired_snapshots"
GROUPED = "public/doc_pu_sequence_group"
GROUPED_INSERTS = {
    1: "INSERT INTO t VALUES (1, 1, 1, 1, 1, 1, 1)",
    2: "INSERT INTO t VALUES (1, 2, 2, 2, 2, 2, NULL)   -- g_2 is null: c and d stay",
    3: "INSERT INTO t VALUES (1, 3, 3, 1, 3, 3, 3)      -- g_1 is smaller: a and b stay",
}
"""The rows that Java Paimon wrote in each snapshot: the example of Paimon's documentation."""
SHOWN_ROWS = 5
CONSOLE = Console(highlight=False, soft_wrap=True)


def main() -> int:
    """Run all parts; return 0 if all rows equal Java's."""
    pl.Config.set_tbl_formatting("ASCII_MARKDOWN")
    pl.Config.set_tbl_hide_dataframe_shape(True)
    pl.Config.set_fmt_str_lengths(30)
    with tempfile.TemporaryDirectory(prefix="morrow-demo-") as folder:
        root = Path(folder)
        print("Unpacking four tables written by Java Paimon 1.4.2 ...")
        unpack(root)
        morrow.open(table_path(root, GROUPED)).to_polars()  # imports libraries, so that the timed reads do not
        try:
            merge_on_read(root)
            partial_update(root)
            deletion_vectors(root)
            time_travel(root)
            duckdb_query(root)
            plan(root)
            doctor(root)
            write(root)
        except AssertionError as difference:
            print(f"\nThe rows differ:\n{difference}", file=sys.stderr)
            return 1
    print("\nAll rows are those that Java Paimon reads, and those that were written.")
    return 0


def unpack(root: Path) -> None:
    """Unpack the four tables into the folder `root`."""
    wanted = tuple(f"{case}/" for case in (MERGED, VECTORS, TAGGED, GROUPED))
    with tarfile.open(golden.ARCHIVE) as archive:
        archive.extractall(
            root, filter=lambda m, path: tarfile.data_filter(m, path) if m.name.startswith(wanted) else None
        )


def merge_on_read(root: Path) -> None:
    headline("A merge-on-read table: files overlap, the newest version of a key is its row")
    table = morrow.open(table_path(root, MERGED))
    print(table)
    print(f"\n{table.snapshots()}\n")
    began = time.perf_counter()
    rows = table.scan().to_polars()
    took = time.perf_counter() - began
    stored = sum(file.row_count for file in table.scan().plan.files)
    print(
        f"{stored:,} rows are stored, {rows.height:,} are rows of the table; read in {took * 1000:.0f} ms. The first:"
    )
    print(rows.head(SHOWN_ROWS))
    check(root, MERGED, "latest")


def partial_update(root: Path) -> None:
    headline("Partial-update with sequence groups: each stream updates its own columns, in its own order")
    table = morrow.open(table_path(root, GROUPED))
    print("\n".join(f"{name} = {value}" for name, value in table.options.items() if name.startswith("fields.")))
    for snapshot, insert in GROUPED_INSERTS.items():
        print(f"\n{insert}\nSELECT * FROM t")
        print(table.scan(snapshot=snapshot).to_polars())
        check(root, GROUPED, f"snapshot-{snapshot}")
    print(f"\nThe merge, as explain() shows it:\n\n{table.scan(snapshot=max(GROUPED_INSERTS)).explain()}")


def deletion_vectors(root: Path) -> None:
    headline("A table with deletion vectors: bitmaps say which positions of a file are dead")
    table = morrow.open(table_path(root, VECTORS))
    files = table.scan().plan.files
    dead = sum(file.deletion.cardinality or 0 for file in files if file.deletion)
    print(
        f"{sum(f.row_count for f in files)} rows stored in {format_count(len(files), 'file')}, {dead} of them dead. "
        "The living, first:"
    )
    print(table.scan().to_polars().head(SHOWN_ROWS))
    check(root, VECTORS, "latest")


def time_travel(root: Path) -> None:
    headline("Time travel: to a snapshot, and to tags that outlive their snapshots")
    table = morrow.open(table_path(root, MERGED))
    for snapshot in (2, 5, 7):
        print(f"snapshot {snapshot}: {table.scan(snapshot=snapshot).count():,} rows")
        check(root, MERGED, f"snapshot-{snapshot}")
    tagged = morrow.open(table_path(root, TAGGED))
    print(f"\nAnother table has the snapshots {[s.id for s in tagged.snapshots()]}; older states are kept by tags:")
    for tag in ("t1", "t2"):
        scan = tagged.scan(["k0", "v0", "v1"], tag=tag)
        print(f"tag {tag} is snapshot {scan.snapshot_id}: {scan.count()} rows. The first:")
        print(scan.to_polars().head(3))
        check(root, TAGGED, f"tag-{tag}")


def duckdb_query(root: Path) -> None:
    headline("DuckDB: paimon_scan is a table; columns and filters of the query reach the files")
    path = table_path(root, MERGED)
    query = f"SELECT n % 5 AS fifth, count(*) AS rows FROM paimon_scan('{path}') WHERE id < 20000 GROUP BY 1 ORDER BY 1"
    print(query)
    with closing(morrow.duckdb.install(duckdb.connect())) as connection:
        result = connection.execute(query).fetchall()
    print(pl.DataFrame(result, schema=["fifth", "rows"], orient="row"))
    # The same query over the rows that Java read, columns id, name, x, n.
    expected = Counter(n % 5 for key, _, _, n in golden_read(MERGED, "latest").rows(root) if key < 20_000)
    assert dict(result) == expected, f"{result} is not {expected}"


def plan(root: Path) -> None:
    headline("explain(): what is read, and why the rest is not")
    print(morrow.open(table_path(root, MERGED)).scan(["id", "name"], "id IN (8, 17) AND name LIKE 'd%'").explain())


def doctor(root: Path) -> None:
    headline("doctor(): is the table well? inspect() draws it on a page")
    table = morrow.open(table_path(root, VECTORS))
    print(table.doctor())
    page = root / "report.html"
    table.inspect(where="id < 10").save(page)
    print(f"\ninspect() wrote a page of {page.stat().st_size:,} bytes; `morrow inspect TABLE -o report.html` keeps one")


def write(root: Path) -> None:
    headline("Writing: two feeds of real earthquakes into one partial-update table with deletion vectors")
    ingest.ingest(root / "warehouse")


def table_path(root: Path, case: str) -> Path:
    return root / case / "warehouse" / "db.db" / "t"


def golden_read(case: str, name: str) -> golden.Read:
    return next(read for read in golden.reads() if (read.case, read.id) == (case, name))


def check(root: Path, case: str, name: str) -> None:
    """Compare a read with Java's rows. Raises AssertionError if they differ."""
    read = golden_read(case, name)
    fields = read.fields(root)
    actual = rows_of(morrow.open(read.table(root)).scan(**read.scan).to_arrow(), fields)
    assert_same_rows(actual, read.rows(root), fields, read.set_columns)
    CONSOLE.print(Text(f"  [{name}: {format_count(len(actual), 'row')}, equal to Java's]", style="green"))


def headline(text: str) -> None:
    """Print the heading of a section, coloured on a terminal."""
    CONSOLE.print()
    CONSOLE.print(Text(text, style="bold cyan"))
    CONSOLE.print(Rule(style="cyan"))


if __name__ == "__main__":
    sys.exit(main())
