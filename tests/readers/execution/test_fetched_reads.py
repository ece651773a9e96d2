"""Files of a store far away are fetched whole, one request each, wherever that gives the rows of the table."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
import pytest

import morrow
from morrow.engine.errors import CorruptFile, FileMissing
from morrow.readers.execution import fetched_reads
from morrow.readers.files import fetched
from tests.support.s3_server import BUCKET, S3Server, running


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with running() as server:
        yield server


KINDS: dict[str, tuple[list[str] | None, dict[str, str]]] = {
    "append": (None, {}),
    "merge on read": (["p", "id"], {"num-sorted-run.compaction-trigger": "100"}),
    "folds": (
        ["p", "id"],
        {
            "num-sorted-run.compaction-trigger": "100",
            "merge-engine": "aggregation",
            "fields.v.aggregate-function": "max",
        },
    ),
    "deletion vectors": (["p", "id"], {"deletion-vectors.enabled": "true"}),
    "ORC": (None, {"file.format": "orc"}),
}


def made(server: S3Server, kind: str, folder: str = "") -> morrow.Table:
    keys, options = KINDS[kind]
    catalog = morrow.Catalog(f"s3://{BUCKET}/{folder or kind} ü%/", storage_options=server.options)
    table = catalog.create_table(
        "db.t",
        schema="p INT NOT NULL, id INT NOT NULL, v STRING, n ARRAY<INT>",
        primary_keys=keys,
        partition_keys=["p"],
        options={"bucket": "1" if keys else "-1", **options},
    )
    for number in range(3):
        ids = list(range(number, number + 4))
        table.append({"p": [i % 2 for i in ids], "id": ids, "v": [f"{number}"] * 4, "n": [[i, None] for i in ids]})
    return table


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ahead", ["much", "nothing"])
def test_rows_are_those_of_a_scan(server: S3Server, monkeypatch: pytest.MonkeyPatch, kind: str, ahead: str) -> None:
    table = (
        made(server, kind)
        if ahead == "much"
        else morrow.open(f"s3://{BUCKET}/{kind} ü%/db.db/t", storage_options=server.options)
    )
    if ahead == "nothing":  # each file is asked for when its reader comes, in many ranges
        monkeypatch.setattr(fetched, "AHEAD", 0)
        monkeypatch.setattr(fetched, "RANGE", 100)
        monkeypatch.setattr(fetched_reads, "GROUP_BYTES", 1)
    for _ in ("first", "again"):
        server.asked.clear()
        found = table.to_polars().sort("p", "id", "v")
        asked = [name for name, *_ in server.asked if "/data-" in name]
        assert len(asked) == len(set(asked)) or ahead == "nothing"
    expected = table.scan(filter="id >= 0").to_polars().sort("p", "id", "v")
    assert found.equals(expected)
    assert found.height == (12 if KINDS[kind][0] is None else 6)
    server.asked.clear()
    assert table.to_arrow().num_rows == found.height
    files = {file.path for section in table.scan().plan.sections for file in section.files}
    assert ahead == "nothing" or sum("/data-" in name for name, *_ in server.asked) == len(files)


def test_narrow_reads_of_files_that_are_not_small_fetch_their_columns(
    server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(server, "append", "narrow")
    monkeypatch.setattr(fetched_reads, "SMALL", 0)
    file = table.scan().plan.files[0]
    assert fetched_reads.is_fetched(table.scan().plan, file)
    assert not fetched_reads.is_fetched(table.scan(["id"]).plan, file)
    assert table.scan(["id"]).to_polars().sum().item() == sum(range(4)) + sum(range(1, 5)) + sum(range(2, 6))


def test_a_file_that_was_cut_or_is_gone_is_named(server: S3Server) -> None:
    table = made(server, "ORC", "damaged")
    first, second, *_ = (file.path for file in table.scan().plan.files)
    objects = server.objects._buckets[BUCKET]
    data = table._metadata.store.read(first)
    objects.put(first, data + b"more", {})
    with pytest.raises(CorruptFile, match="bytes long where"):
        table.to_polars()
    objects.put(first, data, {})
    table._metadata.store.delete(second)
    with pytest.raises(FileMissing, match=second.rpartition("/")[2]):
        table.to_polars()
    assert isinstance(table.scan(filter="p = 7").to_polars(), pl.DataFrame)
