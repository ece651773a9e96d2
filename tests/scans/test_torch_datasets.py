"""Scans as PyTorch datasets: every row once per epoch, whatever the ranks, workers and interruptions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import pytest

import morrow
from morrow.engine.errors import InvalidArgument

torch = pytest.importorskip("torch", reason="run: pip install 'morrow[torch]'")
from torch.utils.data import DataLoader  # noqa: E402  # after the check above

ROWS = 40


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> morrow.Table:
    """Forty rows with keys 0 to 39 in two buckets; the row 7 was deleted, and 3 updated."""
    lake = morrow.Catalog(tmp_path_factory.mktemp("lake"))
    columns = "id INT NOT NULL, x DOUBLE, word STRING, embedding ARRAY<FLOAT>, n INT"
    options = {"bucket": 2, "deletion-vectors.enabled": True}
    table = lake.create_table("db.t", schema=columns, primary_keys=["id"], options=options)
    ids = range(ROWS)
    table.upsert(
        {
            "id": [*ids],
            "x": [None if i == 5 else i / 2 for i in ids],
            "word": [str(i) for i in ids],
            "embedding": [[float(i), 1.0] for i in ids],
            "n": [None if i == 6 else i for i in ids],
        }
    )
    table.delete("id = 7")
    table.update({"word": "'three'"}, "id = 3")
    return table


EXPECTED = [i for i in range(ROWS) if i != 7]


def ids(rows: Any) -> list[int]:
    return [row["id"] for row in rows]


def in_batches(batches: Any) -> list[int]:
    return [number for batch in batches for number in batch["id"].tolist()]


def test_rows_are_dicts_in_the_order_of_the_scan(table: morrow.Table) -> None:
    assert ids(table.scan().to_torch()) == table.to_polars()["id"].to_list()
    assert sorted(ids(table.scan(filter="id < 5").to_torch())) == [0, 1, 2, 3, 4]


def test_batches_are_tensors(table: morrow.Table) -> None:
    first, *others = table.scan(filter="id IN (3, 5, 6)").to_torch(batch_rows=10)
    order = first["id"].argsort()
    assert others == []
    assert first["id"][order].tolist() == [3, 5, 6]
    assert first["x"].isnan().sum() == 1
    assert first["embedding"].shape == (3, 2)
    assert first["embedding"].dtype == torch.float32
    assert set(first["word"]) == {"three", "5", "6"}
    assert set(first["n"]) == {3, 5, None}
    sizes = [len(batch["id"]) for batch in table.scan().to_torch(batch_rows=8, chunk_rows=5)]
    assert sizes == [8, 8, 8, 8, 7]


def test_a_seed_and_an_epoch_choose_the_order(table: morrow.Table) -> None:
    def order(seed: int | None, epoch: int = 0) -> list[int]:
        dataset = table.scan().to_torch(seed=seed, chunk_rows=4, mixed_chunks=2)
        dataset.set_epoch(epoch)
        return ids(dataset)

    assert order(1) == order(1)
    assert len({tuple(each) for each in (order(None), order(1), order(2), order(1, 1))}) == 4
    assert sorted(order(1, 1)) == EXPECTED


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("world_size", [2, 50])
def test_ranks_share_the_rows(table: morrow.Table, seed: int | None, world_size: int) -> None:
    ranks = [
        table.scan().to_torch(4, seed=seed, chunk_rows=3, rank=rank, world_size=world_size)
        for rank in range(world_size)
    ]
    assert sorted(number for rank in ranks for number in in_batches(rank)) == EXPECTED


def test_workers_of_a_loader_share_the_rows_in_every_epoch(table: morrow.Table) -> None:
    dataset = table.scan(["id"]).to_torch(4, seed=3, chunk_rows=3)
    loader = DataLoader(
        dataset, batch_size=None, num_workers=2, multiprocessing_context="forkserver", persistent_workers=True
    )
    found: list[Sequence[int]] = []
    for epoch in range(2):
        dataset.set_epoch(epoch)
        found.append(in_batches(loader))
    assert sorted(found[0]) == sorted(found[1]) == EXPECTED
    assert found[0] != found[1]


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("batch_rows", [None, 4])
@pytest.mark.parametrize("filter", [None, "id > 2"])
def test_reading_continues_after_the_rows_given(
    table: morrow.Table, seed: int | None, batch_rows: int | None, filter: str | None
) -> None:
    def make() -> Any:
        return table.scan(["id"], filter).to_torch(batch_rows, seed=seed, chunk_rows=5, mixed_chunks=2)

    listed = in_batches if batch_rows else ids
    whole = listed(make())
    for given in (0, 1, 3, 7):
        dataset = make()
        before = listed(islice(iter(dataset), given))
        continued = make()
        continued.load_state_dict(dataset.state_dict())
        assert before + listed(continued) == whole
        assert listed(continued) == whole  # the next epoch is whole


def test_a_state_of_another_dataset_is_refused(table: morrow.Table) -> None:
    state = table.scan().to_torch(seed=1).state_dict()
    with pytest.raises(InvalidArgument, match="seed"):
        table.scan().to_torch(seed=2).load_state_dict(state)
    with pytest.raises(InvalidArgument, match="snapshot"):
        table.scan(snapshot=1).to_torch(seed=1).load_state_dict(state)
    with pytest.raises(InvalidArgument, match="consumers"):
        table.scan().to_torch(seed=1, rank=0, world_size=2).load_state_dict(state)


@pytest.mark.parametrize(
    "options",
    [
        {"rank": 2, "world_size": 2},
        {"rank": 0},
        {"chunk_rows": 0},
        {"mixed_chunks": 0},
        {"batch_rows": 0},
        {"seed": "x"},
    ],
)
def test_wrong_calls(table: morrow.Table, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        table.scan().to_torch(**options)
