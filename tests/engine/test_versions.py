"""Old libraries: refused in one line below the bounds, and mended where their results differ."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pyarrow as pa
import pytest

import morrow.session  # no module is imported while another library stands for pyarrow
from morrow.engine import library_versions, plugins
from morrow.engine.errors import CorruptFile, Unsupported
from morrow.engine.polars_threads import is_in_source, open_threads, run_as_source
from tests.support.old_libraries import find_refusal

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
STRUCTS = pl.Series([{"a": "x", "b": [1]}, None, {"a": None, "b": None}, {"a": "y", "b": [2, None]}])
MAPS = pa.array([[("a", 1)], [], None], pa.map_(pa.string(), pa.int32()))


def test_the_bounds_are_those_of_the_package() -> None:
    bounds = dict(each.partition("#")[0].strip().split(">=") for each in PROJECT["dependencies"])
    assert {name: bounds[name] for name in plugins.MIN_VERSIONS} == plugins.MIN_VERSIONS


@pytest.mark.parametrize(("name", "version"), [("pyarrow", "16.1.0"), ("polars", "1.39.3"), ("duckdb", "1.3.2")])
def test_a_library_below_its_bound_is_one_line(monkeypatch: pytest.MonkeyPatch, name: str, version: str) -> None:
    monkeypatch.setitem(sys.modules, name, SimpleNamespace(__version__=version))
    least = plugins.MIN_VERSIONS[name]
    with pytest.raises(Unsupported, match=rf"^{name} {version} is not supported; run: pip install '{name}>={least}'$"):
        _ = morrow.open


def test_the_bound_is_named_whatever_the_import_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", SimpleNamespace(__version__="1.25.2"))
    with pytest.raises(Unsupported, match=r"numpy>=1\.26"), plugins.expect_new_libraries():
        raise AttributeError("module 'numpy' has no attribute 'x'")


@pytest.mark.parametrize("start", range(4))
def test_slices_of_structs_become_arrow(monkeypatch: pytest.MonkeyPatch, start: int) -> None:
    monkeypatch.setattr(library_versions, "EXPORTS_SLICED_STRUCTS", False)
    array = library_versions.export_series(STRUCTS[start:])
    array.validate(full=True)
    assert array.to_pylist() == STRUCTS.to_list()[start:]
    frame = pl.DataFrame({"s": STRUCTS, "n": [1, 2, 3, 4]})[start:]
    assert library_versions.export_frame(frame).to_pylist() == frame.to_dicts()


@pytest.mark.parametrize("array", [MAPS, pa.array([{"m": [("a", 1)]}, {"m": None}], pa.struct([("m", MAPS.type)]))])
def test_null_maps_stay_null(monkeypatch: pytest.MonkeyPatch, array: pa.Array) -> None:
    monkeypatch.setattr(library_versions, "IMPORTS_NULL_MAPS", False)
    assert library_versions.import_array(array).is_null().to_list()[:2] == [False, False]
    assert "null" in str(library_versions.import_array(array))


def test_unscaled_integers_become_decimals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_versions, "REINTERPRETS_WIDE_INTEGERS", False)
    numbers = pl.LazyFrame({"n": pl.Series([105, None, -(10**37)], dtype=pl.Int128)})
    found = numbers.select(library_versions.to_decimals(pl.col("n"), pl.Decimal(38, 2))).collect()["n"]
    assert found.cast(pl.String).to_list() == ["1.05", None, "-100000000000000000000000000000000000.00"]


@pytest.mark.parametrize(
    ("condition", "by_row"),
    [
        (pl.col("a") > 1, True),
        (pl.col("s").str.to_uppercase() == "A", True),
        (pl.col("a") > pl.col("a").mean(), False),
        (pl.col("a").sum().over("s") > 1, False),
        (pl.col("a").shift(1) > 1, False),
        (pl.col("a").map_batches(lambda rows: rows > 1, return_dtype=pl.Boolean, is_elementwise=True), True),
    ],
)
def test_the_plan_tells_what_is_row_by_row(monkeypatch: pytest.MonkeyPatch, condition: pl.Expr, by_row: bool) -> None:
    monkeypatch.setattr(library_versions, "TELLS_ROW_BY_ROW", False)
    columns = pl.LazyFrame(schema={"s": pl.String, "a": pl.Int64})
    assert library_versions.is_row_by_row(condition, columns) is by_row


def test_sources_raise_what_they_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_versions, "RAISES_SOURCE_ERRORS", False)
    wrong = CorruptFile("f.orc", "damaged")

    def source(*_: object) -> object:
        yield pl.DataFrame({"a": [1]})
        raise wrong

    frame = library_versions.register_source(source, {"a": pl.Int64()})  # type: ignore[arg-type]
    with pytest.raises((CorruptFile, pl.exceptions.ComputeError), match="damaged"):
        frame.collect()
    told = pl.exceptions.ComputeError(f"{library_versions.WITHIN_SOURCE}, exception: CorruptFile: {wrong}")
    assert library_versions.find_source_error(told) is wrong
    assert library_versions.find_source_error(pl.exceptions.ComputeError(str(wrong))) is None


def test_sources_of_polars_1_wait_for_no_thread() -> None:
    def frames() -> object:
        with open_threads(2) as threads:
            yield from threads.map(lambda n: pl.DataFrame({"in_source": [is_in_source()], "n": [n]}), range(2))

    found = list(run_as_source(frames()))  # type: ignore[arg-type]
    assert [frame.row(0) for frame in found] == [(True, 0), (True, 1)]
    assert not is_in_source()


def test_refusals_of_versions_are_known() -> None:
    assert find_refusal("E  Unsupported: a query of tables by DuckDB 1.4.0 is not supported; run") is not None
    assert find_refusal("E  Unsupported: the engine 'x' is not supported") is None
    assert find_refusal("E  Unsupported: DuckDB 2.0.1 is not supported") is None
