"""`Table.doctor` finds and names each fault of a damaged golden table, and finds none in healthy ones."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Generator
from pathlib import Path
from unittest.mock import patch

import pytest

import morrow
from morrow.doctor import examination
from morrow.doctor import report as subject
from morrow.doctor.report import Finding, Report, Severity
from morrow.engine.errors import InvalidArgument
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.io.local import disable_fsync
from morrow.writers.buckets.routers import BucketState
from morrow.writers.files.data_files import Placement
from morrow.writers.target import WriteTarget
from tests.cli.conftest import Run, run
from tests.support import golden
from tests.support.written import new_table

__all__ = ["run"]

MARRED = ("rollback_snapshot", "rollback_tag", "branch_fast_forward", "manifest_compression_none")
"""Golden tables in which Java left orphan files behind."""
WRONG_HINTS = ("hints_earliest_stale", "hints_garbage", "hints_latest_stale", "hints_latest_too_high")
UNREAD = tuple(
    f"versions/{v}/{name}" for v in ("0.9.0", "1.0.1") for name in ("pu_random_seqgroup", "pu_random_seqgroup_multi")
)
"""Tables by old versions of Java with a key column k0 that no Parquet reader can decode."""
SAMPLE = ("public/dv_pk", "public/tags_dv", "public/branches", "public/changelog_lookup", "public/data_evolution")
LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
DAMAGED = "dv_pk"

Damage = Callable[[Path], None]


def found(report: Report) -> list[tuple[str, str, str]]:
    return [(finding.severity.value, finding.check, finding.where) for finding in report.findings]


@pytest.fixture
def copied(golden_root: Path, tmp_path: Path) -> Callable[[str], Path]:
    def copy(case: str) -> Path:
        return Path(shutil.copytree(golden_root / "public" / case / "warehouse" / "db.db" / "t", tmp_path / "t"))

    return copy


UNKNOWN = {
    "schema/schema-1": ('"STRING"', '"GEOMETRY"'),
    "snapshot/snapshot-1": ('"version" : 3', '"version" : 9'),
    "tag/tag-kept": ('"APPEND"', '"LATER"'),
}
"""Replacements that a later version of Paimon may write, by file."""


@pytest.mark.parametrize("file", UNKNOWN)
def test_no_backup_is_recommended_for_metadata_that_are_not_known(tmp_path: Path, file: str) -> None:
    table = new_table(tmp_path, "id INT, v INT")
    table.append({"id": [1], "v": [1]})
    table.tags.create("kept")
    table.alter.add_column("w", "STRING")
    table.alter.drop_column("w")
    path = Path(table.path, file)
    path.write_text(path.read_text().replace(*UNKNOWN[file]))

    findings = table.doctor().findings

    assert [finding.remedy for finding in findings if finding.severity is Severity.ERROR] == ["the file may be sound"]


@pytest.mark.parametrize("case", [c.name for c in golden.cases() if LONG or c.name in SAMPLE])
def test_healthy_golden_tables(golden_root: Path, case: str) -> None:
    report = morrow.open(golden_root / case / "warehouse" / "db.db" / "t").doctor(data=LONG)

    name = case.rpartition("/")[2]
    expected = {"orphans"} if name in MARRED else {"hints"} if name in WRONG_HINTS else set()
    expected |= {"data"} if LONG and case in UNREAD else set()
    assert {f.check for f in report.findings if f.severity is not Severity.ADVICE} == expected
    assert report.healthy == bool(report) == (not expected)


def first(path: Path, pattern: str) -> Path:
    return sorted(path.glob(pattern))[0]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 0xFF]) + data[len(data) // 2 + 1 :])


def old_orphan(path: Path) -> None:
    orphan = first(path, "bucket-*") / "data-0000.parquet"
    orphan.write_bytes(b"left over")
    os.utime(orphan, (0, 0))


def contradiction(path: Path) -> None:
    schema = max((path / "schema").iterdir())
    schema.write_text(schema.read_text().replace('"options" : {', '"options" : {"snapshot.num-retained.min": "9", ', 1))
    schema.write_text(schema.read_text().replace('"options" : {', '"options" : {"snapshot.num-retained.max": "3", ', 1))


FAULTS: dict[str, tuple[Damage, tuple[str, str], str]] = {
    "a data file is gone": (lambda p: first(p, "bucket-*/data-*").unlink(), ("error", "files"), "missing, and"),
    "a data file is cut": (lambda p: cut(first(p, "bucket-*/data-*")), ("error", "files"), "bytes where"),
    "an index file is gone": (lambda p: first(p, "index/index-*").unlink(), ("error", "files"), "missing, and"),
    "a manifest is gone": (lambda p: first(p, "manifest/manifest-[0-9a-f]*").unlink(), ("error", "files"), "manifest-"),
    "a list is gone": (lambda p: first(p, "manifest/manifest-list-*").unlink(), ("error", "files"), "manifest-list-"),
    "a snapshot is damaged": (
        lambda p: first(p, "snapshot/snapshot-*").write_text("{"),
        ("error", "files"),
        "snapshot-1",
    ),
    "a snapshot is gone": (
        lambda p: (p / "snapshot" / "snapshot-2").unlink(),
        ("error", "files"),
        "no file, though the snapshots 1 and 3 are there",
    ),
    "LATEST is wrong": (
        lambda p: (p / "snapshot" / "LATEST").write_text("99") and None,
        ("warning", "hints"),
        "it says '99'",
    ),
    "an orphan": (old_orphan, ("warning", "orphans"), "1 file older than a day, 9 B"),
    "options": (contradiction, ("warning", "options"), "snapshot.num-retained.min"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named(copied: Callable[[str], Path], fault: str) -> None:
    damage, expected, words = FAULTS[fault]
    path = copied(DAMAGED)
    damage(path)

    report = morrow.open(path).doctor()
    assert not report.healthy
    assert any((f.severity.value, f.check) == expected and words in f"{f.where} {f.what}" for f in report.findings), (
        str(report)
    )
    assert all(finding.remedy for finding in report.findings)


def test_a_damaged_vector_is_found_where_it_counts(copied: Callable[[str], Path]) -> None:
    path = copied(DAMAGED)
    for index in path.glob("index/index-*"):
        flip(index)

    report = morrow.open(path).doctor()
    assert ("error", "vectors") in {(finding.severity.value, finding.check) for finding in report.findings}


def test_damage_inside_of_a_file_is_found_by_reading_it(copied: Callable[[str], Path]) -> None:
    path = copied(DAMAGED)
    newest = sorted(morrow.open(path).scan().plan.files, key=lambda file: file.path)[0].path
    flip(Path(newest))

    assert morrow.open(path).doctor().healthy
    (finding, *_) = morrow.open(path).doctor(data=True).findings
    assert (finding.severity.value, finding.check, finding.where) == ("error", "data", newest.removeprefix(f"{path}/"))


def test_overlapping_levels(tmp_path: Path) -> None:
    """Find two files of level 0 that a damaged manifest moved to level 1."""
    with disable_fsync():
        table = new_table(tmp_path, "id INT", keys=["id"], options={"bucket": 1, "write-only": True})
        for start in (0, 5):
            table.append([{"id": i} for i in range(start, start + 10)])
    original = subject.read_bucket_states

    def lifted(target: WriteTarget, snapshot: Snapshot | None) -> dict[Placement, BucketState]:
        states = original(target, snapshot)
        return {place: BucketState(tuple(file.upgraded(1) for file in s.files)) for place, s in states.items()}

    with patch.object(subject, "read_bucket_states", lifted):
        report = table.doctor()
    assert ("error", "levels", "bucket 0") in found(report)
    assert "both of level 1" in str(report)


def test_costs_are_advice(tmp_path: Path) -> None:
    with disable_fsync():
        table = new_table(
            tmp_path,
            "id INT",
            keys=["id"],
            options={"bucket": 1, "write-only": True, "num-sorted-run.compaction-trigger": 2},
        )
        for number in range(6):
            table.append([{"id": number}])

    report = table.doctor()
    assert report.healthy
    assert found(report) == [("advice", "runs", "buckets")]
    assert "1 bucket with more than 5 sorted runs; 6 in bucket 0" in str(report)
    with pytest.raises(InvalidArgument):
        table.doctor(data=1)  # type: ignore[arg-type]  # the error is tested


def test_snapshots_that_earliest_hides_for_long(tmp_path: Path) -> None:
    """After an interrupted expiry or with a wrong hint, the next expiry would remove the snapshots."""
    with disable_fsync():
        table = new_table(tmp_path, "a INT")
        for _ in range(3):
            table.append({"a": [1]})
    hint = Path(table.path) / "snapshot" / "EARLIEST"
    hint.write_text("3")
    assert found(table.doctor()) == []  # an expiry may be running
    os.utime(hint, (0, 0))
    report = table.doctor()
    assert found(report) == [("warning", "hints", "snapshot/EARLIEST")]
    assert "it says 3, and 2 older snapshots that no read sees lie there" in str(report)


def test_an_empty_table_and_hostile_names(tmp_path: Path) -> None:
    with disable_fsync():
        table = new_table(tmp_path, "`<script>` INT", name="<b>x'\"")
    (Path(table.path) / "snapshot").mkdir()
    (Path(table.path) / "snapshot" / "LATEST").write_text("<script>alert(1)</script>\x1b[31m")

    report = table.doctor()
    assert found(report) == [("warning", "hints", "snapshot/LATEST")]
    html = report._repr_html_()
    assert "<script>" not in html and "&lt;script&gt;" in html
    assert "\x1b" not in html + str(report)


def test_the_command_finds_and_fixes(run: Run, copied: Callable[[str], Path]) -> None:
    path = copied(DAMAGED)
    assert run("doctor", path).code == 0
    (path / "snapshot" / "LATEST").write_text("99")
    old_orphan(path)

    told = run("doctor", path, "--format", "json")
    assert told.code == 1
    assert '"check":"hints","where":"snapshot/LATEST"' in told.out
    asked = run("doctor", path, "--fix", "--dry-run")
    assert (asked.code, (path / "snapshot" / "LATEST").read_text()) == (1, "99")
    assert asked.out.startswith("would rewrite the wrong hints, remove the orphan files older than a day in ")

    fixed = run("doctor", path, "--fix", "--yes")
    assert fixed.code == 0, fixed.out
    assert fixed.err.splitlines()[-2:] == ["1 hint rewritten", "1 orphan file removed"]
    assert run("doctor", path, "--fix", "--yes").err == "nothing to fix\n"


def test_a_table_that_lost_very_many_files_is_told_in_seconds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def lost(_: subject.Subject) -> Generator[Finding, None, str]:
        for number in range(20_000):
            yield Finding(Severity.ERROR, "files", f"file {number // 2}", "missing", "restore it")
        return "looked"

    monkeypatch.setattr(examination, "CHECKS", {"files": lost})
    began = time.process_time()
    report = new_table(tmp_path, "id INT").doctor()

    assert len(report.findings) == 10_000
    assert time.process_time() - began < 5


def test_values_that_no_read_can_have_since_their_type_changed(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id BIGINT, v STRING, r ROW<a STRING>")
    table.append([{"id": 1, "v": "7", "r": {"a": "abc"}}])
    table.alter.set_type("v", "INT", lossy=True).set_type("r.a", "DATE", lossy=True)
    assert table.doctor().healthy
    (finding,) = table.doctor(data=True).findings
    assert (finding.severity, finding.check) == (Severity.ERROR, "types")
    assert "the value 'abc' of the column 'r.a', written as STRING by schema 0, as DATE of schema 2" in finding.what
    table.alter.set_type("r.a", "STRING")
    assert table.doctor(data=True).healthy


def test_partitions_that_are_too_small_are_advice(tmp_path: Path) -> None:
    table = new_table(tmp_path, "id INT, p INT", by=["p"])
    table.append({"id": range(120), "p": range(120)})
    (found,) = table.doctor().findings
    assert (found.severity, found.check, found.where) == ("advice", "small files", "partitions")
    assert found.what.startswith("120 files of ")
    assert "coarser column" in found.remedy


def test_history_of_many_times_the_live_bytes_is_advice(tmp_path: Path) -> None:
    table = new_table(tmp_path, "s STRING")
    for number in range(3):
        table.overwrite({"s": [hashlib.sha512(bytes([number, i % 256, i // 256])).hexdigest() for i in range(6000)]})
    table.tags.create("kept", 1)
    table.truncate()
    (found,) = table.doctor().findings
    assert (found.severity, found.check) == ("advice", "storage")
    assert re.match(r"1\.\d MiB stored for 0 B live \(", found.what)
    assert re.search(
        r"`morrow expire --retain-max 1 --retain-min 1` frees .*; deleting tags frees up to ", found.remedy
    )
