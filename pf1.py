import polars as pl, morrow, tempfile, sys
from pathlib import Path
from tests.support.written import new_table

t = new_table(Path(tempfile.mkdtemp()) / "a ü' %41$x", 'k STRING, n INT, `od.d "x` INT', primary_keys=["n"])
for n in range(2):
    t.append({"k": ["a", "b"], "n": [n, 10], 'od.d "x': [1, 2]})
f = morrow.scan(t.path)
for e in ("in-memory", "streaming"):
    print(f.filter(pl.col("n") > 5).collect(engine=e))
    print(
        f.filter(pl.col("n") > 5).select(pl.col('od.d "x')).collect(engine=e).rows(),
        f.filter(pl.col('od.d "x') == 1).head(1).collect(engine=e).rows(),
    )
    print(
        f.filter(pl.lit(False)).collect(engine=e).height,
        f.filter(pl.col("k").str.contains("b")).select("n").collect(engine=e).rows(),
        f.limit(0).collect(engine=e).height,
        f.tail(1).collect(engine=e).rows(),
        f.with_row_index().filter(pl.col("index") > 0).collect(engine=e).height,
    )
    print(f.filter(pl.col("n") == pl.col("n").max()).collect(engine=e).rows())
print(t.to_polars().height, t.count("n > 5"), t.head(1), t.to_arrow(["n"]).num_rows, [b.num_rows for b in t.scan()])
print(
    morrow.read(t.path + "$snapshots", ["snapshot_id"]).rows(),
    morrow.scan(t.path + "$files").select("file_path").collect().height,
)
print(pl.DataFrame(t.scan()).height, f.explain())
for p in Path(t.path).rglob("*.parquet"):
    p.unlink()
for e in ("in-memory", "streaming"):
    try:
        f.collect(engine=e)
    except Exception as x:
        print(type(x), x)
    try:
        f.filter(pl.col("n") > 0).collect(engine=e)
    except Exception as x:
        print(type(x), x)
    try:
        f.sink_parquet(Path(t.path) / "zz")
    except Exception as x:
        print(type(x), x)
try:
    morrow.scan(t.path, ["kk"])
except Exception as x:
    print(type(x), x)
print(dir(morrow), morrow.scan)
