"""Tables that Morrow writes for the campaign: small pages, several row groups, one column of each kind of type."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import polars as pl

import morrow
from morrow.engine.options.declared.table import ROW_TRACKING_ENABLED

COLUMNS = (
    "id BIGINT, name STRING, score DOUBLE, at TIMESTAMP(6), price DECIMAL(12, 2), day DATE, flag BOOLEAN, "
    "tags ARRAY<STRING>, sub ROW<a INT, b STRING>"
)
KINDS: Mapping[str, tuple[list[str], dict[str, str]]] = {
    "append": ([], {"bucket": "-1"}),
    "keyed": (["id"], {"bucket": "1", "write-only": "true"}),
    "vectors": (["id"], {"bucket": "1", "deletion-vectors.enabled": "true"}),
}
INDEXED = {
    "file-index.bloom-filter.columns": "id,name",
    "file-index.bitmap.columns": "flag,name",
    "file-index.bsi.columns": "id",
    "file-index.range-bitmap.columns": "price",
    "file-index.in-manifest-threshold": "1 b",
}
TRACKING = {"row-tracking.enabled": "true"}
MANIFESTS: Mapping[str, tuple[list[str], dict[str, str]]] = {
    "manifests-orc": (["id"], {**KINDS["vectors"][1], "manifest.format": "orc"}),
    "manifests-parquet": (["id"], {**KINDS["vectors"][1], "manifest.format": "parquet"}),
    "indexed": ([], {"bucket": "-1", **INDEXED}),
    "tracking": ([], TRACKING),
    "evolution": ([], {**TRACKING, "data-evolution.enabled": "true", "deletion-vectors.enabled": "true"}),
}
"""Made of Parquet files only."""
FORMATS = ("parquet", "orc", "avro", "row")


def made(cache: Path) -> Mapping[str, Path]:
    """Map ``morrow/parquet/append`` to its folder; tables are made once, so that cases can be replayed."""
    version = sha256(Path(__file__).read_bytes()).hexdigest()[:12]
    target = cache / f"damage-{version}"
    if not target.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix="damage-draft-", dir=cache))
        for form in FORMATS:
            for kind in _kinds(form):
                _make(draft / form / kind, form, kind)
        try:
            draft.rename(target)
        except OSError:  # another process was quicker
            shutil.rmtree(draft)
    return {
        f"morrow/{form}/{kind}": target / form / kind / "warehouse" / "db.db" / "t"
        for form in FORMATS
        for kind in _kinds(form)
    }


def _kinds(form: str) -> Mapping[str, tuple[list[str], dict[str, str]]]:
    return {**KINDS, **MANIFESTS} if form == "parquet" else KINDS


def _make(folder: Path, form: str, kind: str) -> None:
    catalog = morrow.Catalog(folder / "warehouse")
    catalog.create_database("db")
    keys, options = _kinds(form)[kind]
    options = {**options, "file.format": form, "parquet.page.size": "2 kb"}
    table = catalog.create_table("db.t", schema=COLUMNS, primary_keys=keys, options=options)
    for first in (0, 300):
        table.append(_rows(first))
    if keys:
        table.delete(pl.DataFrame({"id": [7, 301]}))
    if options.get(ROW_TRACKING_ENABLED.key) == "true":
        table.update({"name": "'changed'"}, "id % 100 = 3")
        table.delete("id = 7")


def _rows(first: int) -> pl.DataFrame:
    ids = pl.int_range(first, first + 500, eager=True).alias("id")
    number = pl.col("id")
    return ids.to_frame().with_columns(
        name=pl.when(number % 7 > 0).then(pl.format("name {}", number % 50)),
        score=number.hash(1) / 3,
        at=pl.from_epoch(number * 1_000_003, "us"),
        price=(number * 7).cast(pl.Decimal(12, 2)),
        day=pl.from_epoch(number % 1000, "d"),
        flag=pl.when(number % 3 > 0).then(number % 2 > 0),
        tags=pl.when(number % 5 > 0).then(pl.concat_list(pl.format("t{}", number % 4), pl.lit("x"))),
        sub=pl.struct(a=(number % 9).cast(pl.Int32), b=pl.format("b{}", number)),
    )
