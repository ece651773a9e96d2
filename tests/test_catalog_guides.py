"""docs/catalogs.md and docs/stores.md run against test servers, and their table of tested combinations is true."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import morrow
from morrow.engine.errors import Unsupported
from morrow.engine.structs import replace
from tests.support.azure_server import azure_server
from tests.support.google_server import google_server
from tests.support.postgres import PostgresUnavailable, postgres
from tests.support.rest_server import rest_server
from tests.support.s3_objects import Request
from tests.support.s3_server import BUCKET, running, s3_server
from tests.test_docs import ROOT, SHELLS, Block, blocks, run_command, run_python

PLACES = {"catalogs": "docs/catalogs.md", "stores": "docs/stores.md"}
TABLE = re.compile(r"(?s)<!-- table: catalogs -->\n\n(.*?)\n<!-- end -->")


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        yield options


def run(block: Block, namespace: dict[str, Any], instead: dict[str, str]) -> None:
    """Run a block with the addresses of test servers instead of those in the text."""
    text = block.text
    for told, there in instead.items():
        text = text.replace(told, there)
    block = Block(block.document, block.line, block.language, text, block.exempt)
    if block.language == "python":
        run_python(block, namespace)
    elif block.language in SHELLS:
        for command in block.commands():
            run_command(block, command)


def test_the_guide_to_stores_runs(s3: dict[str, str]) -> None:
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    namespace: dict[str, Any] = {"__name__": "guide"}
    for block in blocks(PLACES["stores"]):
        run(block, namespace, {"https://minio.example.com": s3["aws_endpoint_url"]})


def test_the_guide_to_catalogs_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CATALOG_TOKEN", "token-of-guide")
    monkeypatch.setenv("MORROW_PROFILES", "set by the guide")
    namespace: dict[str, Any] = {"__name__": "guide"}
    with rest_server(tmp_path / "rest") as server:
        server.lets_in = lambda *request: request[-1].get("Authorization") == "Bearer token-of-guide"
        for block in blocks(PLACES["catalogs"]):
            if block.exempt or "postgresql" in block.text:
                continue
            run(block, namespace, {"https://catalog.example.com": server.url})


def test_the_guide_to_postgres_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = (each for each in blocks(PLACES["catalogs"]) if "postgresql" in each.text)
    try:
        with postgres() as uri:
            address, _, password = uri.partition("?user=morrow&password=")
            monkeypatch.setenv("PGPASSWORD", password)
            run(block, {"morrow": morrow, "os": os}, {"jdbc:postgresql://db.example.com:5432/paimon": address})
    except PostgresUnavailable as reason:
        pytest.skip(str(reason))


# The table of tested combinations


def filesystem(place: str, **options: str) -> Callable[[Path], morrow.Catalog]:
    return lambda folder: morrow.open_catalog({"warehouse": place.format(folder), **options})


def jdbc(place: str, **options: str) -> Callable[[Path], morrow.Catalog]:
    def opened(folder: Path) -> morrow.Catalog:
        uri = f"jdbc:sqlite:{folder}/catalog.db"
        return morrow.open_catalog({"metastore": "jdbc", "uri": uri, "warehouse": place.format(folder), **options})

    return opened


def as_oss(request: Request) -> Request:
    """Return the request as OSS understands it: it ignores If-None-Match and has a header of its own."""
    headers = {name: text for name, text in request.headers.items() if name != "if-none-match"}
    forbids = headers.get("x-oss-forbid-overwrite") == "true" and request.method == "PUT"
    return replace(request, headers={**headers, "if-none-match": "*"} if forbids else headers)


def made(catalog: morrow.Catalog) -> morrow.Table:
    options = {"bucket": 1, "commit.max-retries": 50}
    return catalog.create_table("db.t", schema="id INT NOT NULL, v STRING", primary_keys="id", options=options)


def reads(catalog: morrow.Catalog) -> None:
    made(catalog).upsert({"id": [1], "v": ["a"]})
    assert catalog.table("db.t").scan().to_polars().rows() == [(1, "a")]
    assert catalog.sql("SELECT v FROM db.t").fetchall() == [("a",)]


def alters(catalog: morrow.Catalog) -> None:
    made(catalog).alter.add_column("n", "INT")
    assert "n" in catalog.table("db.t").schemas()[-1].by_name


def tags(catalog: morrow.Catalog) -> None:
    table = made(catalog)
    table.upsert({"id": [1], "v": ["a"]})
    table.tags.create("x")
    table.branches.create("b", tag="x")
    table.upsert({"id": [2], "v": ["b"]})
    assert (table.scan(tag="x").count(), catalog.table("db.t", branch="b").scan().count()) == (1, 1)
    table.rollback(tag="x")
    assert catalog.table("db.t").scan().count() == 1


def renames(catalog: morrow.Catalog) -> None:
    made(catalog)
    catalog.rename_table("db.t", "db.u")
    assert catalog.tables("db") == ["u"]


def races(catalog: morrow.Catalog) -> None:
    made(catalog)

    def write(number: int) -> None:
        catalog.table("db.t").upsert({"id": [number], "v": ["x"]})

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, range(3)))
    assert sorted(catalog.table("db.t").scan().to_polars()["id"]) == [0, 1, 2]


def drops(catalog: morrow.Catalog) -> None:
    made(catalog).upsert({"id": [1], "v": ["a"]})
    catalog.drop_database("db", cascade=True)
    assert catalog.databases() == []


LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
QUICK = (races,)
"""Operations that are tested on object stores each time; the long profile tests all."""
FAR = ("S3", "S3 without conditional put", "OSS", "GCS", "Azure")
SKIPPED = "not run"
HDFS = ("filesystem, HDFS", "JDBC in SQLite, HDFS")
"""Combinations that tests/interop/test_hdfs.py tests with a namenode."""
HIVE = "Hive, "
"""The beginning of rows that tests/interop/test_hive.py tests with a metastore."""
ELSEWHERE = (*(f"| {row} |" for row in HDFS), f"| {HIVE}")
OPERATIONS = {
    "write, read, SQL": reads,
    "change columns": alters,
    "tag, branch, roll back": tags,
    "rename": renames,
    "race": races,
    "drop": drops,
}


@pytest.fixture
def catalogs(s3: dict[str, str], tmp_path: Path) -> Iterator[dict[str, Callable[[Path], morrow.Catalog]]]:
    bucket, blind = f"s3://{BUCKET}" + "{}", {**s3, "aws_conditional_put": "disabled"}
    with (
        rest_server(tmp_path / "rest") as server,
        google_server(tmp_path) as google,
        azure_server() as azure,
        running() as oss_server,
    ):
        oss_server.trouble = lambda request: oss_server.objects.answer(as_oss(request))
        oss = {"fs.oss.endpoint": oss_server.options["aws_endpoint_url"]}
        oss |= {"fs.oss.accessKeyId": "user", "fs.oss.accessKeySecret": "secret"}
        rest = {"metastore": "rest", "uri": server.url, "token.provider": "bear", "token": "x"}

        def served(_: Path) -> morrow.Catalog:
            server.databases.clear()
            return morrow.open_catalog(rest)

        yield {
            "filesystem, local disk": filesystem("{}/lake"),
            "filesystem, memory": filesystem("memory://{}/lake".replace("//{}", "//x{}")),
            "filesystem, S3": filesystem(bucket, **s3),
            "filesystem, S3 without conditional put": filesystem(bucket, **blind),
            "filesystem, OSS": filesystem(f"oss://{BUCKET}" + "{}", **oss),
            "filesystem, GCS": filesystem(f"gs://{BUCKET}" + "{}", **google),
            "filesystem, Azure": filesystem(f"abfss://{BUCKET}@team.dfs.core.windows.net" + "{}", **azure),
            "JDBC in SQLite, local disk": jdbc("{}/lake"),
            "JDBC in SQLite, S3": jdbc(bucket, **s3),
            "JDBC in SQLite, S3 without conditional put": jdbc(bucket, **blind),
            "JDBC in SQLite, OSS": jdbc(f"oss://{BUCKET}" + "{}", **oss),
            "JDBC in SQLite, GCS": jdbc(f"gs://{BUCKET}" + "{}", **google),
            "JDBC in SQLite, Azure": jdbc(f"az://{BUCKET}" + "{}", **azure),
            "REST, local disk": served,
        }


def table_of_what_was_run() -> list[str]:
    """Return the lines of the table in docs/catalogs.md."""
    (told,) = TABLE.findall((ROOT / PLACES["catalogs"]).read_text())
    return str(told).strip().splitlines()


def test_the_table_of_what_was_run_is_true(
    catalogs: dict[str, Callable[[Path], morrow.Catalog]], tmp_path: Path
) -> None:
    """After an intended change, run it with MORROW_REWRITE=1 and HYPOTHESIS_PROFILE=long."""
    lines = ["| catalog, store | " + " | ".join(OPERATIONS) + " |", "| -- |" + " -- |" * len(OPERATIONS)]
    for name, opened in catalogs.items():
        cells = []
        for operation in OPERATIONS.values():
            if not LONG and name.endswith(FAR) and operation not in QUICK:
                cells.append(SKIPPED)
                continue
            folder = tmp_path / uuid.uuid4().hex
            folder.mkdir()
            cells.append("refused")
            with suppress(Unsupported):
                operation(opened(folder))
                cells[-1] = "yes"
        lines.append(f"| {name} | {' | '.join(cells)} |")
    page = ROOT / PLACES["catalogs"]
    text = page.read_text()
    if os.environ.get("MORROW_REWRITE"):
        start, end = text.index("<!-- table: catalogs -->"), text.index("<!-- end -->")
        lines += [line for line in table_of_what_was_run() if line.startswith(ELSEWHERE)]
        page.write_text(f"{text[:start]}<!-- table: catalogs -->\n\n" + "\n".join(lines) + "\n\n" + text[end:])
    told = [line for line in table_of_what_was_run() if not line.startswith(ELSEWHERE)]
    lines = [line for line in lines if not line.startswith(ELSEWHERE)]
    assert len(told) == len(lines)
    for there, line in zip(told, lines, strict=True):
        assert all(
            known.strip() in (cell.strip(), SKIPPED)
            for cell, known in zip(there.split("|"), line.split("|"), strict=True)
        )
