"""Frames of pandas, whose dtypes are fewer than the types of a table."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

import morrow

DAY = dt.date(2024, 5, 13)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> morrow.Catalog:
    return morrow.Catalog(tmp_path_factory.mktemp("pandas"))


@pytest.fixture
def table(catalog: morrow.Catalog) -> morrow.Table:
    return catalog.create_table(
        f"db.t{len(list(catalog))}", "id BIGINT NOT NULL, n INT, d DATE", options={"file.format": "avro"}
    )


def test_integers_with_nulls_and_dates(table: morrow.Table) -> None:
    days = pd.to_datetime([DAY, None])
    table.append(pd.DataFrame({"id": [1.0, 2.0], "n": [7, np.nan], "d": days}))
    assert table.to_arrow().to_pylist() == [{"id": 1, "n": 7, "d": DAY}, {"id": 2, "n": None, "d": None}]


def test_what_is_read_is_written_again(table: morrow.Table) -> None:
    table.append(pd.DataFrame({"id": [1], "n": [np.nan], "d": [pd.Timestamp(DAY)]}))
    table.append(table.to_pandas())
    assert table.to_arrow().to_pylist() == 2 * [{"id": 1, "n": None, "d": DAY}]


REFUSED: dict[str, Callable[[], pd.DataFrame]] = {
    "a fraction": lambda: pd.DataFrame({"id": [1], "n": [1.5]}),
    "infinity": lambda: pd.DataFrame({"id": [1], "n": [np.inf]}),
    "past what a double holds exactly": lambda: pd.DataFrame({"id": [2.0**53]}),
    "a time of day": lambda: pd.DataFrame({"id": [1], "d": pd.to_datetime(["2024-05-13 12:00"])}),
    "an instant": lambda: pd.DataFrame({"id": [1], "d": pd.to_datetime([DAY]).tz_localize("UTC")}),
}


@pytest.mark.parametrize("frame", REFUSED.values(), ids=REFUSED)
def test_what_would_lose_something_is_refused(table: morrow.Table, frame: Callable[[], pd.DataFrame]) -> None:
    with pytest.raises(morrow.errors.InvalidArgument, match=r"where (BIGINT|INT|DATE).* is needed"):
        table.append(frame())
    assert table.count() == 0
