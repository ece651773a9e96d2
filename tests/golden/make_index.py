"""Write ``index.json``, the list of golden reads: ``python tests/golden/make_index.py TREE``.

The index is committed, so that pytest knows every read without unpacking 140 MB. One entry a case::

    {"case": "public/branches", "engine": "deduplicate", "reads": [
        {"id": "branch-dev-snapshot-1", "scan": {"branch": "dev", "snapshot": 1}, "schema": 0}, ...]}

`scan` holds the arguments of ``Table.scan``, and `schema` the id of the rows' schema (of the branch, if any).
The rows are in ``expected/<id>.jsonl`` unless the read has another member: `file` names another file (for tables of
other versions, the rows of Java Paimon 1.4.2 if they differ), `inputs` lists the written files if Java failed to read
its own append table, and `error` is Java's message about a table whose rows are unknown. `traits` lists the features of
a case, for tests that read a sample (`tests.support.golden.sample_cases`).
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

INDEX = Path(__file__).with_name("index.json")
FOLLOWED = "expected-1.4.2"
"""The folder of rows that 1.4.2 reads from a table of another version which itself reads other rows."""
MISREAD = frozenset({"versions/0.9.0/types_multiset"})
"""Cases that Java silently misreads: the Parquet files are right, and the written rows are expected."""

WITH_ENGINES = ("changelog-producer=", "deletion-vectors.enabled=")
"""Options that work otherwise for each merge engine and format."""

SET_LIKE_FUNCTIONS = ("nested_update", "nested_partial_update")
"""Aggregate functions whose result is an array in no particular order."""


def entries(tree: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(tree.glob("public/*/case.json")) + sorted(tree.glob("versions/*/*/case.json")):
        case = json.loads(path.read_text())
        options = case["options"]
        reads = [*main_reads(case), *branch_reads(case, path.parent / case["table_path"] / "branch")]
        entry: dict[str, Any] = {
            "case": str(path.parent.relative_to(tree)),
            "engine": options.get("merge-engine", "deduplicate") if case["primary_keys"] else "append",
            "traits": sorted(traits(case)),
            "reads": [followed(read, path.parent) for read in reads],
        }
        if sets := [
            f for _, f, _ in case["fields"] if options.get(f"fields.{f}.aggregate-function") in SET_LIKE_FUNCTIONS
        ]:
            entry["set_columns"] = sets
        yield entry


def traits(case: dict[str, Any]) -> set[str]:
    """Return what a case exercises: options, types by their place, formats by merge engine, operations, references."""
    options, keys, partitions = case["options"], case["primary_keys"], case["partition_keys"]
    columns = {name for _, name, _ in case["fields"]}
    engine = options.get("merge-engine", "deduplicate") if keys else "append"
    found = {f"{engine} in {options.get('file.format', 'parquet')}", *(f"kind {s['kind']}" for s in case["snapshots"])}
    for option in options.items():
        named = without_names(*option, columns)
        found.add(f"option {named}")
        if named.startswith(WITH_ENGINES):
            found |= {f"{named} of {engine}", f"{named} in {options.get('file.format', 'parquet')}"}
    for _, name, described in case["fields"]:
        place = "key" if name in keys else "partition" if name in partitions else "type"
        found.add(f"{place} {first_of(r'TIME[A-Z]*.[0-9].|[A-Z]+', described)}")
    found |= {f"operation {first_of('[a-zA-Z-]+', op['op'])}" for op in case["inputs"]}
    found |= {f"has {part}" for part in ("tags", "branches", "stream", "system") if case.get(part)}
    found |= {f"schemas of {engine}"} if case["schema_id"] else set()
    found |= {f"partitions of {engine}"} if partitions else set()
    return found


def first_of(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    assert found is not None, text
    return found[0]


def without_names(key: str, value: str, columns: set[str]) -> str:
    """Describe an option without names of columns and without sizes: those differ from table to table."""
    key = ".".join("*" if part in columns or "," in part else part for part in re.split(r"[.#]", key))
    is_kind = re.fullmatch(r"-\d|[a-z][\w-]*(\(\d+\))?", value) and value not in columns
    return f"{key}={value}" if is_kind else key


def main_reads(case: dict[str, Any]) -> Iterator[dict[str, Any]]:
    latest = case["latest"]
    if "spec_latest_snapshot" in case:
        # The hint points past the end: Java fails, but the specification says to look for the latest snapshot.
        latest = next(s for s in case["snapshots"] if s["id"] == case["spec_latest_snapshot"])
    yield read("latest", {}, case["schema_id"], latest, case)
    for snapshot in case["snapshots"]:
        yield read(f"snapshot-{snapshot['id']}", {"snapshot": snapshot["id"]}, snapshot["schema_id"], snapshot, case)
    for tag in case.get("tags", ()):
        yield read(f"tag-{tag['name']}", {"tag": tag["name"]}, tag["schema_id"], tag, case)


def branch_reads(case: dict[str, Any], folder: Path) -> Iterator[dict[str, Any]]:
    for branch in case.get("branches", ()):
        name = branch["name"]
        schema = max(int(p.name.rpartition("-")[2]) for p in (folder / f"branch-{name}" / "schema").iterdir())
        yield read(f"branch-{name}", {"branch": name}, schema, branch, case)
        for snapshot in branch["snapshots"]:
            scan = {"branch": name, "snapshot": snapshot["id"]}
            yield read(f"branch-{name}-snapshot-{snapshot['id']}", scan, snapshot["schema_id"], snapshot, case)


def read(id: str, scan: dict[str, Any], schema: int, source: dict[str, Any], case: dict[str, Any]) -> dict[str, Any]:
    entry = {"id": id, "scan": scan, "schema": schema}
    misread = f"versions/{case['paimon_version']}/{case['name']}" in MISREAD
    if "error" not in source and not misread:
        return entry if source["file"] == f"expected/{id}.jsonl" else entry | {"file": source["file"]}
    last = source.get("id", source.get("snapshot"))
    if not case["primary_keys"] and all(op["op"] == "write" for op in case["inputs"]):
        return entry | {"inputs": [op["file"] for op in case["inputs"] if op["latest_snapshot_after"] <= last]}
    return entry | {"error": source["error"]}


def followed(read: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Use the rows that 1.4.2 reads, if they are known to differ."""
    file = f"{FOLLOWED}/{read['id']}.jsonl"
    if not (folder / file).exists():
        return read
    return {key: value for key, value in read.items() if key != "error"} | {"file": file}


if __name__ == "__main__":
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries(Path(sys.argv[1])))
    INDEX.write_text(f"[\n{lines}\n]\n")
