"""Searches in indexes of vectors and texts: right rows and scores after every kind of change of the table."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import morrow
from morrow.engine.errors import CorruptFile, InvalidArgument, Unsupported
from morrow.engine.names import SCORE
from morrow.engine.plan import global_indexes
from tests.support.global_indexes import OPTIONS, unpack

pytest.importorskip("paimon_vindex", reason="run: pip install 'morrow[vindex]'")
pytest.importorskip("paimon_ftindex", reason="run: pip install 'morrow[full-text]'")

TYPES = ("ivf-flat", "ivf-pq", "ivf-sq", "ivf-rq", "diskann")
QUERY = [1.0, -0.5, 0.25, 0.0]
WORDS = ("paimon", "lake", "format", "stream", "house")


@pytest.fixture(autouse=True)
def read_candidates_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read no rows between candidates, which would find the nearest ones even if no index named them."""
    monkeypatch.setattr(global_indexes, "MIN_SKIPPED_ROWS", 1)


def draw(first: int, stop: int, seed: int = 0) -> pl.DataFrame:
    """Return rows with random vectors and texts; every seventh vector and every ninth text is null."""
    random = np.random.default_rng(first + seed)
    vectors = random.normal(size=(stop - first, 4)).astype(np.float32).tolist()
    ids = range(first, stop)
    return pl.DataFrame(
        {
            "id": ids,
            "v": [None if i % 7 == 0 else vector for i, vector in zip(ids, vectors)],
            "s": [None if i % 9 == 0 else f"{' '.join(random.choice(WORDS, 3))} n{i}" for i in ids],
            "p": [i % 2 for i in ids],
        },
        schema={"id": pl.Int64, "v": pl.Array(pl.Float32, 4), "s": pl.String, "p": pl.Int32},
    )


def make(path: Path, partition_keys: tuple[str, ...] = (), **options: str) -> morrow.Table:
    given = {**OPTIONS, **{key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}}
    columns = "id BIGINT, v VECTOR<FLOAT, 4>, s STRING, p INT"
    table = morrow.Catalog(path).create_table("db.t", columns, partition_keys=partition_keys, options=given)
    table.append(draw(0, 200))
    return table


def index_vectors(table: morrow.Table, index_type: str = "ivf-flat", **options: object) -> int:
    given = {f"{index_type}.metric": "l2", "global-index.row-count-per-shard": 64, **options}
    return table.create_global_index("v", index_type, options=given).files


def check(table: morrow.Table, **arguments: object) -> list[int]:
    """Return the ids of an approximate search that must find the same rows as an exact one."""
    exact = table.search("v", QUERY, 9, **arguments)  # type: ignore[arg-type]  # its own arguments
    found = table.search("v", QUERY, 9, exact=False, **arguments)  # type: ignore[arg-type]  # its own arguments
    assert found.equals(exact)
    return found["id"].to_list()


def test_results_are_those_of_pypaimon(tmp_path: Path) -> None:
    warehouse = unpack(tmp_path)
    expected = json.loads((warehouse / "expected.json").read_text())["search"]
    table = morrow.open(warehouse / "db.db/search")

    # Distances of ivf-pq are approximate in pypaimon.
    found = table.search("v", QUERY, 8, columns=["id"], exact=False)
    assert dict(found.iter_rows()) == pytest.approx(dict(expected["vector"]), abs=0.05)
    assert "rows by ivf-pq of v, approximately" in str(table.explain_search("v", QUERY, 8, exact=False))
    texts = table.search_text("s", "lake n65 n7", 100, columns=["id"])
    assert dict(texts.iter_rows()) == pytest.approx(dict(expected["text"]), rel=1e-6)


@pytest.mark.parametrize(
    ("index_type", "metric"),
    [*((each, "l2") for each in TYPES), ("ivf-pq", "cosine"), ("diskann", "inner-product"), ("ivf-flat", "cosine")],
)
def test_candidates_have_exact_scores(tmp_path: Path, index_type: str, metric: str) -> None:
    table = make(tmp_path)
    assert index_vectors(table, index_type, **{f"{index_type}.metric": metric}) == 4
    exact = table.search("v", QUERY, 10, metric=metric, columns=["id"])
    found = table.search("v", QUERY, 10, metric=metric, columns=["id"], exact=False)

    assert len(set(found["id"]) & set(exact["id"])) >= 7
    scores = dict(table.search("v", QUERY, 200, metric=metric, columns=["id"]).iter_rows())
    assert found[SCORE].to_list() == pytest.approx([scores[i] for i in found["id"]])
    assert found[SCORE].is_sorted(descending=True)


def test_the_search_reads_candidates_and_rows_without_index(tmp_path: Path) -> None:
    table = make(tmp_path)
    index_vectors(table)
    table.append(draw(200, 220))

    plan = table.explain_search("v", QUERY, 5, exact=False)
    assert "rows by ivf-flat of v, approximately" in str(plan)
    assert "kept 25 of 220" in str(plan)
    assert "approximately" not in str(table.explain_search("v", QUERY, 5))
    check(table)
    assert check(table, filter="id >= 150 AND p = 1") == check(table, filter="id >= 150 AND p = 1", columns=None)
    assert check(table, snapshot=1) == check(table, filter="id < 200")
    assert table.search("v", QUERY, 3, exact=False, filter="id < 0").height == 0


def test_filters_may_use_indexes_of_other_columns(tmp_path: Path) -> None:
    table = make(tmp_path, deletion_vectors__enabled="true")
    index_vectors(table)
    for column in ("id", "s"):
        table.create_global_index(column)
    table.create_global_index("s", "full-text")
    table.delete("id = 30")

    for condition in ("id IN (1, 30, 31, 90, 91, 150)", "id < 20 OR id >= 190", "s >= 'p'", "id = 5"):
        assert "btree" in str(table.explain_search("v", QUERY, 5, filter=condition))
        found = check(table, filter=condition)
        assert len(found) == len(set(found))
        texts = table.search_text("s", "paimon lake", 200, filter=condition, columns=["id"])["id"].to_list()
        words = (find_matching(table, word, condition) for word in ("paimon", "lake"))
        assert sorted(texts) == sorted(set().union(*words))


def test_deleted_updated_and_overwritten_rows_are_not_found(tmp_path: Path) -> None:
    table = make(tmp_path, deletion_vectors__enabled="true", global_index__column_update_action="ignore")
    index_vectors(table)
    first, second = check(table)[:2]

    table.delete(f"id = {first}")
    assert check(table)[0] == second
    table.update({"v": "[9.0, 9.0, 9.0, 9.0]"}, f"id = {second}")
    assert second not in check(table)
    table.update({"v": f"{QUERY}"}, "id = 7")
    assert check(table)[0] == 7
    assert index_vectors(table) > 0  # replaces the files of changed rows
    assert check(table)[0] == 7
    table.compact(full=True)
    check(table)
    table.materialize_deletion_vectors()
    check(table)
    table.overwrite(draw(500, 600))
    assert min(check(table)) >= 500


def test_updates_are_refused_or_drop_the_index(tmp_path: Path) -> None:
    table = make(tmp_path)
    index_vectors(table)
    table.create_global_index("s", "full-text")

    for column, value in (("v", "[1.0, 1.0, 1.0, 1.0]"), ("s", "'x'")):
        with pytest.raises(Unsupported, match="a column with a global index"):
            table.update({column: value}, "id = 1")
    table.alter.set_options({"global-index.column-update-action": "drop_partition_index"})
    table.update({"v": f"{QUERY}"}, "id = 1")
    assert table.system("table_indexes").to_polars()["index_type"].to_list() == ["full-text"]
    assert check(table)[0] == 1


def test_partitions_expiry_orphans_and_new_ids(tmp_path: Path) -> None:
    table = make(tmp_path, ("p",))
    index_vectors(table)
    table.create_global_index("s", "full-text")
    table.append(draw(200, 260))
    table.reassign_row_ids()
    table.append(draw(300, 310))

    check(table)
    check(table, filter="p = 0")
    texts = table.search_text("s", "lake", 30, columns=["id"])
    table.expire_snapshots(retain_max=1, retain_min=1)
    table.remove_orphan_files(older_than="0 s")
    check(table)
    assert table.search_text("s", "lake", 30, columns=["id"]).equals(texts)
    assert table.drop_global_index("v", "ivf-flat", partition={"p": 1}).files >= 1
    check(table)
    table.drop_partitions({"p": 0})
    assert all(i % 2 for i in check(table))
    assert table.doctor().healthy


def find_matching(table: morrow.Table, word: str, filter: str | None = None) -> list[int]:
    rows = table.to_polars(["id", "s"], filter=filter)
    return sorted(rows.filter(pl.col("s").fill_null("").str.split(" ").list.contains(word))["id"].to_list())


@pytest.mark.parametrize("is_indexed", [True, False])
def test_texts_are_found_with_and_without_an_index(tmp_path: Path, is_indexed: bool) -> None:
    table = make(tmp_path, deletion_vectors__enabled="true", global_index__column_update_action="ignore")
    if is_indexed:
        assert table.create_global_index("s", "full-text", options={"global-index.row-count-per-shard": 64}).files == 4
    table.append(draw(200, 260))
    table.delete("id % 10 = 3")
    table.update({"s": "'a lake by n5'"}, "id = 5")

    for word in ("lake", "n5", "paimon", "absent"):
        found = table.search_text("s", word, 300, columns=["id"])
        assert sorted(found["id"].to_list()) == find_matching(table, word)
        assert found[SCORE].is_sorted(descending=True)
        some = table.search_text("s", word, 300, filter="id > 100", columns=["id", "s"])
        assert sorted(some["id"].to_list()) == find_matching(table, word, "id > 100")
    assert table.search_text("s", "n5 n7", 1)["s"].item() in table.search_text("s", "n5 n7", 2)["s"].to_list()
    assert table.search_text("s", "lake", 3).equals(table.search_text("s", "lake", 300).head(3))


def test_queries_of_paimon(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append([{"id": 900, "s": "Streaming lakes, formats"}, {"id": 901, "s": "lake\0format"}])
    both = {"match": {"query": "lake format", "operator": "And"}}
    phrase = {"match_phrase": {"query": "lake format"}}
    without = {"boolean": {"must": [{"match": {"query": "lake"}}], "must_not": [{"match": {"query": "n900"}}]}}

    for _ in range(2):
        assert {900, 901} <= set(table.search_text("s", both, 300)["id"])
        assert table.search_text("s", both, 300).equals(table.search_text("s", json.dumps(both), 300))
        assert set(table.search_text("s", phrase, 300)["id"]) < set(table.search_text("s", both, 300)["id"])
        assert table.search_text("s", without, 5).height == 5
        table.create_global_index("s", "full-text")
    rows = morrow.Catalog(tmp_path).sql(f"SELECT id FROM full_text_search('db.t', 's', '{json.dumps(both)}', 300)")
    assert {900, 901} <= {i for (i,) in rows.fetchall()}


def test_an_index_keeps_the_options_it_was_built_with(tmp_path: Path) -> None:
    table = make(tmp_path, full_text__tokenizer="ngram")
    table.create_global_index(
        "s", "full-text", options={"full-text.tokenizer": "whitespace", "full-text.stem": "false"}
    )
    table.append([{"id": 900, "s": "xylophones"}])

    assert table.search_text("s", "xylo", 1).height == 0
    assert table.search_text("s", "xylophones", 1)["id"].to_list() == [900]
    table.drop_global_index("s", "full-text")
    assert table.search_text("s", "xylo", 1)["id"].to_list() == [900]


def test_a_column_of_another_type_is_searched_without_its_old_index(tmp_path: Path) -> None:
    columns = "id BIGINT, v ARRAY<FLOAT>, s STRING"
    table = morrow.Catalog(tmp_path).create_table("db.t", columns, options={**OPTIONS, "fields.v.metric": "l2"})
    table.append([{"id": 1, "v": [1.0, 2.0], "s": "lake house"}])
    table.create_global_index("v", "ivf-flat")
    table.create_global_index("s", "full-text")
    table.alter.set_type("s", "VARCHAR(4)", lossy=True)
    table.alter.set_type("v.element", "DOUBLE")

    assert table.search_text("s", "house", 1).height == 0
    assert table.search_text("s", "lake", 1)["s"].item() == "lake"
    assert "approximately" not in str(table.explain_search("v", [1.0, 2.0], 1, exact=False))
    assert table.search("v", [1e300, 0.0], 1, exact=False)["id"].item() == 1


def test_rows_that_an_update_moved_are_found(tmp_path: Path) -> None:
    """Without data evolution, an update writes rows with their ids to new files."""
    options = {"row-tracking.enabled": "true", "fields.v.metric": "l2"}
    table = morrow.Catalog(tmp_path).create_table("db.t", "id BIGINT, v VECTOR<FLOAT, 4>, s STRING", options=options)
    table.append(draw(0, 50).drop("p"))
    table.append(draw(50, 80).drop("p"))
    index_vectors(table)
    table.create_global_index("s", "full-text")

    table.delete("id < 5")
    table.update({"v": f"{QUERY}", "s": "'zebra'"}, "id = 60")
    assert check(table)[0] == 60
    assert table.search_text("s", "zebra", 9)["id"].to_list() == [60]
    table.compact(full=True)
    assert check(table)[0] == 60
    assert min(table.search_text("s", "paimon lake format stream house", 100)["id"]) >= 5


def test_snapshots_tags_and_branches_have_their_own_indexes(tmp_path: Path) -> None:
    table = make(tmp_path)
    index_vectors(table)
    table.tags.create("indexed")
    table.branches.create("b", tag="indexed")
    table.drop_global_index("v", "ivf-flat")
    table.append(draw(200, 220))
    table.expire_snapshots(retain_max=1, retain_min=1)
    table.remove_orphan_files(older_than="0 s")

    for at in ({"tag": "indexed"}, {"branch": "b"}):
        assert max(check(table, **at)) < 200
        assert "approximately" in str(table.explain_search("v", QUERY, 5, exact=False, **at))  # type: ignore[arg-type]
    assert "approximately" not in str(table.explain_search("v", QUERY, 5, exact=False))


def test_searches_in_sql(tmp_path: Path) -> None:
    table, catalog = make(tmp_path), morrow.Catalog(tmp_path)
    options = "options => 'ivf-flat.metric=l2,ivf-flat.nlist=4'"
    catalog.sql(
        f"CALL sys.create_global_index(`table` => 'db.t', index_column => 'v', index_type => 'ivf-flat', {options})"
    )

    found = catalog.sql("SELECT id FROM vector_search('db.t', 'v', [1.0, -0.5, 0.25, 0.0], 9, 'ivf.nprobe=4')")
    assert sorted(i for (i,) in found.fetchall()) == sorted(check(table))
    assert catalog.sql("CALL sys.drop_global_index('db.t', 'v', 'ivf-flat')").fetchall() == [(True, 1)]


def test_arrays_of_one_length_have_an_index(tmp_path: Path) -> None:
    columns = "id BIGINT, v ARRAY<FLOAT>"
    given = {**OPTIONS, "fields.v.metric": "cosine"}
    table = morrow.Catalog(tmp_path).create_table("db.t", columns, options=given)
    rows = draw(0, 50).select("id", pl.col("v").arr.to_list())
    table.append(rows)
    table.create_global_index("v", "ivf-sq")
    assert table.search("v", QUERY, 5, metric="cosine", exact=False).equals(
        table.search("v", QUERY, 5, metric="cosine")
    )
    with pytest.raises(InvalidArgument, match="has vectors of 4 elements, the query vector 3"):
        table.search("v", QUERY[:3], 5, metric="cosine", exact=False)

    table.append([{"id": 99, "v": [1.0, float("nan"), 0.0, 0.0]}])
    with pytest.raises(InvalidArgument, match="has vectors with null, NaN or infinite elements"):
        table.create_global_index("v", "ivf-sq")
    table.append([{"id": 99, "v": [1.0]}])
    with pytest.raises(InvalidArgument, match="has a vector of 1 element"):
        table.create_global_index("v", "ivf-sq", options={"fields.v.dimension": 4})


def test_arguments_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    table = make(tmp_path)
    index_vectors(table)

    with pytest.raises(InvalidArgument, match=r"the index has the metric l2; pass metric='l2'"):
        table.search("v", QUERY, 5, metric="cosine", exact=False)
    with pytest.raises(InvalidArgument, match="pass exact=False"):
        table.search("v", QUERY, 5, options={"ivf.nprobe": 3})
    with pytest.raises(InvalidArgument, match=r"ivf\.nprobe or diskann\.l_search, not both"):
        table.search("v", QUERY, 5, exact=False, options={"ivf.nprobe": 3, "diskann.l_search": 4})
    with pytest.raises(InvalidArgument, match="a whole number of 1 or more, not 0"):
        table.search("v", QUERY, 5, exact=False, options={"ivf.refine-factor": 0})
    with pytest.raises(InvalidArgument, match=r"no option 'ivf-flat\.nprobe'"):
        table.create_global_index("v", "ivf-flat", options={"ivf-flat.nprobe": 3})
    with pytest.raises(InvalidArgument, match=r"no option 'full-text\.tokeniser'"):
        table.create_global_index("s", "full-text", options={"full-text.tokeniser": "x"})
    with pytest.raises(InvalidArgument, match="tokenizer 'x'"):
        table.create_global_index("s", "full-text", options={"full-text.tokenizer": "x"})
    with pytest.raises(InvalidArgument, match="unknown metric 'l3'"):
        table.create_global_index("v", "ivf-pq", options={"ivf-pq.metric": "l3"})
    with pytest.raises(InvalidArgument, match="search a column of STRING"):
        table.search_text("id", "lake", 5)
    for query in ("", 5, {"match": {"query": object()}}, {"bad": 1}, "{"):
        with pytest.raises(InvalidArgument, match="query"):
            table.search_text("s", query, 5)  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize("kind", ["ivf-flat", "full-text"])
def test_a_damaged_index_is_an_error_of_searches_alone(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path)
    table.create_global_index("s" if kind == "full-text" else "v", kind, options={"ivf-flat.metric": "l2"})
    (file,) = (tmp_path / "db.db/t/index").glob(f"*{kind}-global*")
    file.write_bytes(b"damaged!" + file.read_bytes()[8:])

    assert table.count() == 200
    assert table.search("v", QUERY, 1).height == 1
    with pytest.raises(CorruptFile, match="the index cannot be searched"):
        if kind == "full-text":
            table.search_text("s", "lake", 1)
        else:
            table.search("v", QUERY, 1, exact=False)
    file.unlink()
    assert table.to_polars(filter="id = 3")["id"].to_list() == [3]


@pytest.mark.parametrize("seed", range(2))
def test_random_histories(tmp_path: Path, seed: int) -> None:
    """Searches that probe all lists of an index find the same rows as exact ones, after every step."""
    chance = random.Random(seed)
    action = chance.choice(["ignore", "drop_partition_index"])
    options = {"global_index__column_update_action": action, "global_index__row_count_per_shard": "40"}
    keys = ("p",) if seed % 2 else ()
    table = make(tmp_path, keys, deletion_vectors__enabled="true", fields__v__metric="l2", **options)
    steps: list[Callable[[int], object]] = [
        lambda _: table.create_global_index("v", "ivf-flat"),
        lambda _: table.create_global_index("s", "full-text"),
        lambda _: table.create_global_index(chance.choice(["id", "s"])),
        lambda n: table.append(draw(1000 * (n + 1), 1000 * (n + 1) + chance.choice([5, 50]))),
        lambda n: table.delete(f"id % 7 = {n % 7}"),
        lambda n: table.update({"v": "[1.0, 0.0, 0.0, 0.5]", "s": "'new lake'"}, f"id % 19 = {n}"),
        lambda _: table.compact(full=True),
        lambda _: table.materialize_deletion_vectors(),
        lambda _: table.reassign_row_ids() if keys else None,
        lambda _: table.drop_global_index("v", "ivf-flat"),
    ]
    for number in range(6):
        (steps[number] if number < 2 else chance.choice(steps))(number)
        where = chance.choice([None, "id % 3 = 1", "id < 150", "s >= 'p'", "id IN (5, 25, 26, 1001)"])
        exact = table.search("v", QUERY, 12, filter=where)
        found = table.search("v", QUERY, 12, filter=where, exact=False, options={"ivf.nprobe": 99})
        assert found[SCORE].to_list() == exact[SCORE].to_list()
        texts = table.search_text("s", "lake", 1000, filter=where, columns=["id"])
        assert sorted(texts["id"].to_list()) == find_matching(table, "lake", where)
