"""The cost and the names of ``import morrow``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import morrow
from morrow.engine import errors
from tests.support.table_factory import TableFactory

HEAVY = ("duckdb", "numpy", "obstore", "pandas", "polars", "pyarrow", "pyspark", "sqlglot")

COMMAND = "from morrow.cli.app import app; app(standalone_mode=False)"


def modules_after(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_importing_morrow_loads_nothing_heavy() -> None:
    loaded = modules_after("import morrow")
    assert not loaded.intersection(HEAVY)
    assert "morrow.compat" not in loaded


@pytest.mark.parametrize("name", ["duckdb", "pyspark"])
def test_opening_a_table_loads_no_host_that_is_not_asked_for(name: str) -> None:
    assert name not in modules_after("import morrow; morrow.open, morrow.Catalog, morrow.Table")


def test_a_plain_read_loads_only_what_it_uses(tmp_path: Path) -> None:
    """pyarrow imports pandas on its first conversion from or to Python values or numpy, which reads avoid."""
    table = TableFactory(tmp_path / "t", [("p", "STRING"), ("id", "INT"), ("name", "STRING")], ["id", "p"], ["p"])
    for number in range(2):
        rows = pa.table({"id": [1, number + 2], "name": ["a", None]})
        table.write_file(rows, partition={"p": "x"}, level=5 - number)
    table.commit()
    loaded = modules_after(f"import morrow; morrow.open({table.path.as_posix()!r}).scan().to_arrow()")
    idle = {"pandas", "duckdb", "obstore", "pyspark", "sqlglot", "pyarrow.dataset", "pyarrow.orc", "fastavro"}
    idle |= {"numpy.ma", "difflib", "html"}  # `pl.Series` of an array imports the first
    idle |= {"morrow.engine.options.write_options"}
    idle |= {
        f"morrow.engine.format.{name}"
        for name in ("orc_columns", "parquet_metadata", "deletion_vectors", "roaring_bitmaps")
    }
    idle |= {"morrow.readers.files.page_checksums", "morrow.writers"}
    idle |= {f"morrow.readers.casts.{name}" for name in ("base", "rules", "atomic")}
    idle |= {f"morrow.readers.files.formats.{format}" for format in ("avro", "blob", "csv", "json", "orc", "text")}
    assert not loaded.intersection({*idle, "morrow.engine.format.file_index", "morrow.engine.format.buckets"})


def test_a_read_without_partitions_needs_none_of_arrows_functions(tmp_path: Path) -> None:
    table = TableFactory(tmp_path / "t", [("id", "INT"), ("name", "STRING"), ("raw", "BYTES")], ["id"])
    for number in range(2):
        table.write_file(pa.table({"id": [1, number + 2], "name": ["ä", None], "raw": [None, b""]}), level=5 - number)
    table.commit()
    loaded = modules_after(
        f"import morrow; rows = morrow.open({table.path.as_posix()!r}).scan().to_arrow()\n"
        "assert sorted(rows['name'].to_pylist(), key=str) == [None, None, 'ä'], rows"
    )
    # The second loads all file systems of Arrow and network encryption.
    assert not loaded.intersection({"pyarrow.compute", "pyarrow.parquet", "pyarrow.fs"})
    shown = modules_after(f"import sys; sys.argv = ['morrow', 'read', {table.path.as_posix()!r}]; {COMMAND}")
    assert not shown.intersection({"pyarrow.compute", "pyarrow.parquet", "pandas"})


def test_public_names() -> None:
    functions = {"clear_caches", "open", "open_catalog", "read", "scan", "sql", "use_cache_folder"}
    assert set(morrow.__all__) == {"Blob", "Catalog", "MorrowError", "Scan", "Table", "errors"} | functions
    assert all(getattr(morrow, name) is not None for name in morrow.__all__)
    assert morrow.errors is errors
    assert morrow.MorrowError is errors.MorrowError
    assert callable(morrow.duckdb.install)


def test_dir_lists_what_can_be_used() -> None:
    assert {*morrow.__all__, "duckdb", "__version__"} <= set(dir(morrow))


def test_a_star_import_binds_the_public_names() -> None:
    code = "from morrow import *; print(sorted(n for n in dir() if not n.startswith('_')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(sorted(morrow.__all__))


def test_an_unknown_name() -> None:
    with pytest.raises(AttributeError, match="module 'morrow' has no attribute 'opne'"):
        _ = morrow.opne


def test_the_version_is_that_of_the_distribution() -> None:
    from importlib.metadata import version

    assert morrow.__version__ == version("morrow")


def test_every_error_is_a_morrow_error() -> None:
    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, Exception)]
    assert len(classes) > 10
    assert all(issubclass(c, errors.MorrowError) for c in classes)


@pytest.mark.parametrize("module", ["writers.operations.append", "spark.job.wire", "readers.merges.sections", "doctor"])
def test_modules_load_by_themselves(module: str) -> None:
    """Modules load in a process that has opened no table, as Spark tasks begin."""
    assert f"morrow.{module}" in modules_after(f"import morrow.{module}")
