"""The attempt log of a job: the files of rejected attempts are removed, all others stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from morrow.engine.errors import StorageError
from morrow.engine.io.local import LocalStore
from morrow.writers.commit.attempt_log import AttemptLog, log_attempt_files


@pytest.fixture
def attempt_log(tmp_path: Path) -> AttemptLog:
    made = AttemptLog(LocalStore(), str(tmp_path))
    made.begin()
    return made


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_files_of_attempts_that_were_not_taken_are_removed(tmp_path: Path, attempt_log: AttemptLog) -> None:
    for attempt in ("3.0.7", "3.0.8"):
        store = log_attempt_files(LocalStore(), attempt_log.folder, attempt)
        store.write(f"{tmp_path}/bucket-0/index-{attempt}", b"index")
        with store.output(f"{tmp_path}/bucket-0/data-{attempt}") as stream:
            stream.write(b"rows")
        assert store.read(f"{tmp_path}/bucket-0/data-{attempt}") == b"rows"
    assert attempt_log.close(taken=["3.0.8"]) == 2
    assert files(tmp_path) == ["bucket-0/data-3.0.8", "bucket-0/index-3.0.8"]


def test_a_file_is_named_before_it_is_there(tmp_path: Path, attempt_log: AttemptLog) -> None:
    store = log_attempt_files(LocalStore(), attempt_log.folder, "1")
    with store.output(f"{tmp_path}/data-1"):
        assert (Path(attempt_log.folder) / "1-0").read_text() == f"{tmp_path}/data-1"


def test_an_attempt_that_outlives_its_job_makes_no_files(tmp_path: Path, attempt_log: AttemptLog) -> None:
    store = log_attempt_files(LocalStore(), attempt_log.folder, "1")
    attempt_log.close(taken=[])
    with pytest.raises(StorageError, match="has ended"):
        store.write(f"{tmp_path}/data-1", b"rows")
    with pytest.raises(StorageError, match="has ended"), store.output(f"{tmp_path}/data-2"):
        pass
    assert files(tmp_path) == []


def test_a_file_that_is_complete_after_the_job_is_taken_back(tmp_path: Path, attempt_log: AttemptLog) -> None:
    store = log_attempt_files(LocalStore(), attempt_log.folder, "1")
    with pytest.raises(StorageError, match="has ended"), store.output(f"{tmp_path}/data-1") as stream:
        stream.write(b"rows")
        attempt_log.close(taken=[])
    assert files(tmp_path) == []
