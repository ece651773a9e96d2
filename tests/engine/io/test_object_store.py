"""Object stores: a bucket in memory, and a server on the loopback that speaks S3."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from obstore.exceptions import AlreadyExistsError, GenericError, PermissionDeniedError
from obstore.store import MemoryStore

import morrow
from morrow.engine.errors import FileMissing, InvalidArgument, StorageError, TableNotFound, UnclearOutcome, Unsupported
from morrow.engine.io import object_store
from morrow.engine.io.object_store import PART, ObjectStore
from tests.support import s3_objects
from tests.support.processes import PROCESSES as FORKED
from tests.support.s3_server import BUCKET, client_of, s3_server
from tests.support.table_factory import TableFactory

FIELDS = [("id", "INT"), ("v", "STRING")]


@pytest.fixture
def store() -> ObjectStore:
    bucket = MemoryStore()
    bucket.put("t/snapshot/snapshot-1", b"0123456789")
    bucket.put("t/snapshot/LATEST", b"1")
    bucket.put("t/schema/schema-0", b"{}")
    return ObjectStore(bucket, "memory://", {})


def test_reading_an_object(store: ObjectStore) -> None:
    path = "t/snapshot/snapshot-1"

    assert store.read(path) == b"0123456789"
    assert store.read_range(path, 2, 3) == b"234"
    assert store.read_range(path, 8, 100) == b"89"
    assert store.read_range(path, 50, 3) == b""


def test_a_stream_over_an_object(store: ObjectStore) -> None:
    with store.open("t/snapshot/snapshot-1") as stream:
        assert (stream.seekable(), stream.readable(), stream.tell()) == (True, True, 0)
        assert stream.read(4) == b"0123"
        assert stream.seek(-3, io.SEEK_END) == 7
        assert stream.read() == b"789"
        assert stream.seek(-1, io.SEEK_CUR) == 9
        assert stream.read(100) == b"9"
        assert stream.seek(40) == 40
        assert stream.read() == b""


def test_what_is_there(store: ObjectStore) -> None:
    assert store.exists("t/snapshot/LATEST")
    assert not store.exists("t/snapshot")
    assert store.size("t/snapshot/snapshot-1") == 10
    assert store.size("t/nope") is None
    assert store.is_dir("t/snapshot")
    assert not store.is_dir("t/snap")
    assert not store.is_dir("t/snapshot/LATEST")


def test_folders_are_prefixes(store: ObjectStore) -> None:
    assert {(s.name, s.size, s.is_dir) for s in store.list("t/snapshot")} == {
        ("snapshot-1", 10, False),
        ("LATEST", 1, False),
    }
    assert {(s.name, s.is_dir) for s in store.list("t/")} == {("snapshot", True), ("schema", True)}
    assert {(s.name, s.is_dir) for s in store.list("")} == {("t", True)}
    assert store.list("nope") == []


def test_a_missing_object_is_named_by_its_url(store: ObjectStore) -> None:
    for read in (store.read, store.open, lambda p: store.read_range(p, 0, 1)):
        with pytest.raises(FileMissing, match=r"^memory:///t/nope: no such file"):
            read("t/nope")


@pytest.mark.parametrize("name", ["a\nb", "a\x01b", "a//b", "a/../b"])
def test_a_name_that_no_object_has_is_refused_in_a_line(store: ObjectStore, name: str) -> None:
    for ask in (store.read, store.size, store.list, lambda path: store.create(path, b"1")):
        with pytest.raises(InvalidArgument, match="no object has such a name") as caught:
            ask(f"t/{name}")
        assert "\n" not in str(caught.value)


def test_writing_objects(store: ObjectStore) -> None:
    store.write("t/snapshot/LATEST", b"2")
    with store.output("t/data") as stream:
        assert (stream.writable(), stream.tell(), stream.closed) == (True, 0, False)
        stream.write(b"ab")
        stream.write(b"c")

    assert store.read("t/snapshot/LATEST") == b"2"
    assert store.read("t/data") == b"abc"


def test_an_object_is_streamed_whole_or_not_at_all(store: ObjectStore) -> None:
    for size in (0, 10, 3 * PART):
        with pytest.raises(ZeroDivisionError), store.output("t/data") as stream:
            stream.write(b"x" * size)
            raise ZeroDivisionError
        assert not store.exists("t/data")


def test_native_writers_have_no_place_in_a_bucket(store: ObjectStore) -> None:
    assert store.local_target("t/data") is None
    store.sync(["t/data"])


def test_removing_objects(store: ObjectStore) -> None:
    store.write("t2/other", b"")

    assert [store.delete("t/schema/schema-0"), store.delete("t/schema/schema-0")] == [True, False]
    store.delete_folder("t")
    store.delete_folder("t")
    assert (store.list("t"), store.exists("t2/other")) == ([], True)
    with pytest.raises(InvalidArgument, match="itself is not deleted"):
        store.delete_folder("/")


def test_discarding_never_fails(store: ObjectStore) -> None:
    store.discard([])
    store.discard(["t/nope", "t/snapshot/LATEST", "t/snapshot/snapshot-1"])

    assert store.list("t/snapshot") == []


# --- a server that speaks S3 ---


@pytest.fixture(scope="module")
def storage_options() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        yield options


@pytest.fixture(scope="module")
def s3(storage_options: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Connect to a server whose bucket holds ``wh/db.db/merged``, ``wh/db.db/vectors`` and ``top.db/plain``."""
    client = client_of(storage_options)
    folder = tmp_path_factory.mktemp("lake")
    merged(folder / "wh/db.db/merged")
    vectors(folder / "wh/db.db/vectors")
    vectors(folder / "top.db/plain")
    for file in folder.rglob("*"):
        if file.is_file():
            client.upload_file(str(file), BUCKET, str(file.relative_to(folder)))
    return client


def merged(path: Path) -> None:
    table = TableFactory(path, FIELDS, primary_keys=["id"])
    table.write_file(pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"]}), level=5)
    table.commit()
    table.write_file(pa.table({"id": [2], "v": ["B"]}))
    table.write_file(pa.table({"id": [3, 4], "v": [None, "D"]}), kinds=["-D", "+I"], format="orc")
    table.commit()


def vectors(path: Path) -> None:
    table = TableFactory(path, FIELDS, options={"bucket": "-1", "deletion-vectors.enabled": "true"})
    file = table.write_file(pa.table({"id": list(range(10)), "v": ["x"] * 10}))
    table.deletion_vector(file, range(1, 10))
    table.commit()


@pytest.mark.usefixtures("s3")
def test_a_table_in_a_bucket(storage_options: Mapping[str, str]) -> None:
    table = morrow.open("s3://lake/wh/db.db/merged", storage_options=storage_options)

    assert table.path == "s3://lake/wh/db.db/merged"
    assert [snapshot.id for snapshot in table.snapshots()] == [1, 2]
    assert sorted(table.scan().to_arrow().column("v").to_pylist()) == ["B", "D", "a"]
    assert table.scan(filter="id = 2").to_polars().rows() == [(2, "B")]
    assert table.scan(snapshot=1).count() == 3
    assert sum(batch.num_rows for batch in table.scan().to_batches()) == 3
    with duckdb.connect() as con:
        assert sorted(table.scan().to_duckdb(con).fetchall()) == [(1, "a"), (2, "B"), (4, "D")]


@pytest.mark.usefixtures("s3")
def test_deletion_vectors_in_a_bucket(storage_options: Mapping[str, str]) -> None:
    table = morrow.open("s3://lake/wh/db.db/vectors", storage_options=storage_options)

    assert table.scan().to_arrow().to_pylist() == [{"id": 0, "v": "x"}]


@pytest.mark.usefixtures("s3")
def test_a_catalog_may_be_a_folder_or_the_bucket_itself(storage_options: Mapping[str, str]) -> None:
    folder = morrow.Catalog("s3://lake/wh", storage_options=storage_options)
    assert (folder.databases(), folder.tables("db")) == (["db"], ["merged", "vectors"])

    bucket = morrow.Catalog("s3://lake", storage_options=storage_options)
    assert (bucket.databases(), bucket.tables("top")) == (["top"], ["plain"])
    assert bucket.table("top.plain").scan().to_arrow().num_rows == 1


def test_a_lost_hint_and_a_lost_file(s3: Any, storage_options: Mapping[str, str], tmp_path: Path) -> None:
    merged(tmp_path)
    for file in tmp_path.rglob("*"):
        if file.is_file() and file.name != "LATEST" and file.suffix != ".orc":
            s3.upload_file(str(file), BUCKET, f"damaged/{file.relative_to(tmp_path)}")
    table = morrow.open("s3://lake/damaged", storage_options=storage_options)

    assert table.scan().snapshot_id == 2
    with pytest.raises(FileMissing, match=r"s3://lake/damaged/bucket-0/data-.*\.orc: no such file"):
        table.scan().to_arrow()


def test_external_files_in_the_same_bucket(s3: Any, storage_options: Mapping[str, str], tmp_path: Path) -> None:
    table = TableFactory(tmp_path, FIELDS, options={"data-file.external-paths": "s3://lake/ext"})
    file = table.write_file(pa.table({"id": [1], "v": ["outside"]}))
    file.record["_EXTERNAL_PATH"] = f"s3://lake/ext/{file.name}"  # type: ignore[index]  # a dict, read-only by type
    table.commit()
    for path in tmp_path.rglob("*"):
        if path.is_file():
            key = f"ext/{path.name}" if path.suffix == ".parquet" else f"external/{path.relative_to(tmp_path)}"
            s3.upload_file(str(path), BUCKET, key)

    found = morrow.open("s3://lake/external", storage_options=storage_options).scan().to_arrow()
    assert found.to_pylist() == [{"id": 1, "v": "outside"}]


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"allow_http": "true"},
        {"aws_allow_http": "true", "timeout": "20s", "connect_timeout": "5s"},
        {"aws_virtual_hosted_style_request": "false"},
    ],
)
@pytest.mark.usefixtures("s3")
def test_options_serve_both_obstore_and_polars(storage_options: Mapping[str, str], more: Mapping[str, str]) -> None:
    table = morrow.open("s3://lake/wh/db.db/vectors", storage_options={**storage_options, **more})
    assert table.scan().to_arrow().num_rows == 1


@pytest.mark.usefixtures("s3")
def test_option_names_may_lack_their_prefix(storage_options: Mapping[str, str]) -> None:
    short = {key.removeprefix("aws_"): value for key, value in storage_options.items()}
    assert morrow.open("s3://lake/wh/db.db/vectors", storage_options=short).scan().to_arrow().num_rows == 1


@pytest.mark.usefixtures("s3")
def test_what_is_wrong_is_said_in_one_line(storage_options: Mapping[str, str]) -> None:
    with pytest.raises(TableNotFound, match=r"^s3://lake/wh/nope: the folder does not exist"):
        morrow.open("s3://lake/wh/nope", storage_options=storage_options)
    with pytest.raises(StorageError, match=r"^s3://other/t/schema: there is no bucket 'other'") as caught:
        morrow.open("s3://other/t", storage_options=storage_options)
    assert "\n" not in str(caught.value)
    with pytest.raises(InvalidArgument, match=r"'nonsense' is not valid for store 'S3'.*leave the storage option out"):
        morrow.open("s3://lake/t", storage_options={"nonsense": "1"})
    with pytest.raises(InvalidArgument, match=r"several storage options mean aws_endpoint: give one of them$"):
        morrow.open("s3://lake/t", storage_options={"aws_endpoint": "http://a", "aws_endpoint_url": "http://a"})
    with pytest.raises(InvalidArgument, match=r"give a path, or an s3://"):
        morrow.open("nonsense://lake/t")


@pytest.mark.usefixtures("s3")
def test_secrets_are_never_shown(storage_options: Mapping[str, str]) -> None:
    table = morrow.open(
        "s3://lake/wh/db.db/merged", storage_options={**storage_options, "aws_secret_access_key": "hush"}
    )
    scan = table.scan()

    for shown in (repr(table), repr(scan), scan.explain(), repr(scan.plan), repr(table._metadata)):
        assert "hush" not in shown


def test_a_large_object_goes_up_in_parts(s3: Any, storage_options: Mapping[str, str]) -> None:
    store = ObjectStore.of_url("s3://lake", storage_options)
    with store.output("up/large") as stream:
        for _ in range(5):
            stream.write(b"x" * (PART // 2))
    with pytest.raises(ZeroDivisionError), store.output("up/broken") as stream:
        stream.write(b"x" * 2 * PART)
        raise ZeroDivisionError

    assert s3.head_object(Bucket=BUCKET, Key="up/large")["ETag"].endswith('-3"')
    assert not store.exists("up/broken")
    assert s3.list_multipart_uploads(Bucket=BUCKET).get("Uploads", []) == []
    store.delete_folder("up")
    assert store.list("up") == []


@pytest.mark.usefixtures("s3")
def test_a_bucket_that_is_not_there_cannot_be_written(storage_options: Mapping[str, str]) -> None:
    store = ObjectStore.of_url("s3://other", storage_options)

    with pytest.raises(StorageError, match=r"^s3://other/f: there is no bucket 'other'; create it"):
        store.write("f", b"")
    with pytest.raises(StorageError, match=r"^s3://other/f: there is no bucket 'other'"), store.output("f"):
        pass
    with pytest.raises(StorageError, match=r"there is no bucket 'other'; create it"):
        store.create("f", b"")
    store.discard(["f", "g"])


# Creating an object only if none exists, even when answers get lost.

KEY = "t/snapshot/snapshot-1"
PROCESSES = 8
FILES = 12


class Bucket:
    """A bucket whose puts are replaced by the given functions in turn; each gets the function that really puts."""

    def __init__(self, *puts: Callable[[Callable[[], object]], object]) -> None:
        self._memory = MemoryStore()
        self._puts = list(puts)
        self.get = self._memory.get

    def put(self, *arguments: Any, **options: Any) -> object:
        def carried_out() -> object:
            return self._memory.put(*arguments, **options)

        return self._puts.pop(0)(carried_out) if self._puts else carried_out()


def fine(carried_out: Callable[[], object]) -> object:
    return carried_out()


def lost_on_the_way(_: Callable[[], object]) -> object:
    raise GenericError("error sending request")


def answer_lost(carried_out: Callable[[], object]) -> object:
    carried_out()
    raise GenericError("operation timed out")


def repeated(carried_out: Callable[[], object]) -> object:
    """Carry a request out twice, like obstore when a server fails after it has put the object."""
    carried_out()
    return carried_out()


def created(*puts: Callable[[Callable[[], object]], object]) -> bool:
    return ObjectStore(Bucket(*puts), "memory://", {}).create(KEY, b"mine")  # type: ignore[arg-type]  # a part of one


@pytest.mark.parametrize(
    "puts",
    [
        [fine],
        [lost_on_the_way],
        [lost_on_the_way, answer_lost],
        [answer_lost],
        [repeated],
    ],
)
def test_what_arrives_at_last_is_ours(puts: list[Any]) -> None:
    assert created(*puts) is True


def test_no_answer_leaves_the_outcome_open() -> None:
    with pytest.raises(UnclearOutcome, match=r"^memory:///t/snapshot/snapshot-1: error sending .*, look for it"):
        created(lost_on_the_way, lost_on_the_way)


@pytest.mark.parametrize("also_lost", [[], [lost_on_the_way]])
def test_an_object_of_another_is_not_ours_though_its_bytes_are_equal(also_lost: list[Any]) -> None:
    bucket = Bucket(fine, *also_lost)
    stores = [ObjectStore(bucket, "memory://", {}) for _ in range(2)]  # type: ignore[arg-type]  # a part of one

    assert [store.create(KEY, b"the same") for store in stores] == [True, False]


def test_an_object_without_a_token_is_of_another() -> None:
    bucket = MemoryStore()
    bucket.put(KEY, b"by Java")

    assert not ObjectStore(bucket, "memory://", {}).create(KEY, b"by Java")


def test_a_conflict_that_nobody_won_is_tried_again() -> None:
    def undecided(_: Callable[[], object]) -> object:
        raise AlreadyExistsError("409 ConditionalRequestConflict")

    assert created(undecided) is True
    with pytest.raises(UnclearOutcome, match="409 ConditionalRequestConflict"):
        created(undecided, undecided)


def test_a_refusal_is_clear() -> None:
    def refused(_: Callable[[], object]) -> object:
        raise PermissionDeniedError("403 Forbidden")

    with pytest.raises(
        StorageError, match=r"403 Forbidden; check the address, the credentials and their perm"
    ) as error:
        created(refused)
    assert not isinstance(error.value, UnclearOutcome)


def test_a_store_that_cannot_is_refused(storage_options: Mapping[str, str]) -> None:
    for url, options in (
        ("s3://lake", {**storage_options, "aws_conditional_put": "disabled"}),
        ("https://127.0.0.1:9", {}),
    ):
        with pytest.raises(Unsupported, match=r"without conditional put is not supported; commits of others would be"):
            ObjectStore.of_url(url, options).create(KEY, b"")


def test_a_server_that_does_not_heed_the_condition_is_refused(
    storage_options: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_objects, "_refused", lambda *_: None)
    monkeypatch.setattr(object_store, "_proven", {})
    store = ObjectStore.of_url("s3://lake", storage_options)

    with pytest.raises(Unsupported, match="the server replaces an object that it was asked to create"):
        store.create(KEY, b"")
    assert store.list("t/snapshot") == []


def test_oss_is_asked_not_to_overwrite(storage_options: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """OSS ignores If-None-Match, and refuses to replace an object by a header of its own."""

    def refused(bucket: Any, request: Any) -> Any:
        forbids = request.headers.get("x-oss-forbid-overwrite") == "true"
        return s3_objects._failed(409, "FileAlreadyExists") if forbids and request.key in bucket.objects else None

    monkeypatch.setattr(s3_objects, "_refused", refused)
    monkeypatch.setattr(object_store, "_proven", {})
    store = ObjectStore.of_url("s3://lake", storage_options)

    assert [store.create("oss/f", b"1"), store.create("oss/f", b"2")] == [True, False]
    assert store.read("oss/f") == b"1"
    assert [status.name for status in store.list("oss")] == ["f"]
    store.write("oss/f", b"3")
    assert store.read("oss/f") == b"3"


def test_the_proof_leaves_nothing(storage_options: Mapping[str, str]) -> None:
    store = ObjectStore.of_url("s3://lake", storage_options)

    assert [store.create("proof/f", b"1"), store.create("proof/f", b"1")] == [True, False]
    assert [status.name for status in store.list("proof")] == ["f"]


def _created(options: dict[str, str], writer: int, gate: Any, taken: Any) -> None:
    store = ObjectStore.of_url("s3://lake", options)
    gate.wait()
    taken.put((writer, [i for i in range(FILES) if store.create(f"race/{i}", f"{writer}:{i}".encode())]))


def test_of_eight_processes_exactly_one_creates_each_object(storage_options: dict[str, str]) -> None:
    gate, taken = FORKED.Barrier(PROCESSES), FORKED.Queue()
    racers = [FORKED.Process(target=_created, args=(storage_options, i, gate, taken)) for i in range(PROCESSES)]
    for racer in racers:
        racer.start()
    won = dict(taken.get() for _ in racers)
    for racer in racers:
        racer.join()

    assert Counter(i for files in won.values() for i in files) == dict.fromkeys(range(FILES), 1)
    store = ObjectStore.of_url("s3://lake", storage_options)
    assert {store.read(f"race/{i}") for i in range(FILES)} == {f"{w}:{i}".encode() for w, fs in won.items() for i in fs}
