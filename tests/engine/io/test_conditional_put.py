"""Creating an object only where none is, whatever becomes of the answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from obstore.exceptions import AlreadyExistsError, GenericError, PermissionDeniedError
from obstore.store import MemoryStore

from morrow.engine.errors import StorageError, UnclearOutcome, Unsupported
from morrow.engine.io import conditional_put
from morrow.engine.io.objects import ObjectStore
from tests.support import s3_objects
from tests.support.processes import PROCESSES as FORKED
from tests.support.s3_server import s3_server

KEY = "t/snapshot/snapshot-1"
PROCESSES = 8
FILES = 12


class Bucket:
    """A bucket whose puts go as the given functions do, one for each; each gets what puts the object."""

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
    """Carries a request out twice, as obstore does by itself when a server fails after it has put the object."""
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


# --- servers ---


@pytest.fixture(scope="module")
def storage_options() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        yield options


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
    monkeypatch.setattr(conditional_put, "_proven", set())
    store = ObjectStore.of_url("s3://lake", storage_options)

    with pytest.raises(Unsupported, match="the server replaces an object that it was asked to create"):
        store.create(KEY, b"")
    assert store.list("t/snapshot") == []


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
