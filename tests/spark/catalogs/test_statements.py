"""Every statement of docs/spark-sql.md, in order, in one session: what is done, and what is refused by which words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.catalogs.conftest import Sql
from tests.test_docs import ROOT, SPARK_SQL, run_guide

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = ROOT / SPARK_SQL
ROW = re.compile(r"^\| (`{1,2})(.+?)\1 \| (Yes|No: )(.*) \|$", re.MULTILINE)
SETTING = "spark.sql.sources.partitionOverwriteMode"


def test_every_statement_does_what_the_page_says(sql: Sql, spark: SparkSession) -> None:
    rows = ROW.findall(PAGE.read_text())
    assert len(rows) == PAGE.read_text().count("\n| `")
    try:
        for _, statement, answer, words in rows:
            if answer == "Yes":
                sql(statement)
            else:
                with pytest.raises(Exception, match=re.escape(words)):
                    sql(statement)
                    pytest.fail(f"{statement}: it is done, and the page says it is refused")
    finally:
        spark.conf.unset(SETTING)
        sql("USE spark_catalog.default")


@pytest.mark.usefixtures("spark")
def test_the_page_runs(golden_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_guide(SPARK_SQL, golden_root)
