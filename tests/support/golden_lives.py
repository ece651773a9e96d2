"""Golden cases with tags, rollbacks and expired snapshots, repeated by Morrow, and the files that both leave."""

from __future__ import annotations

import datetime as dt
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from morrow.engine.plan.consumers import Consumers
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.time_travel import Travel
from morrow.writers.history.rollback import rollback_table
from morrow.writers.history.snapshot_expiry import expire_snapshots
from morrow.writers.history.tags import create_tag, delete_tag, rename_tag, replace_tag
from tests.support.golden_replay import GoldenReplay

CREATE_TAG = re.compile(r"createTag (?P<name>.+?)(?: from (?P<id>\d+)| (?P<of>\d+) PT(?P<hours>\d+)H)?")


class GoldenLife(GoldenReplay):
    """A replay that also expires, tags and rolls back."""

    def do(self, operation: Mapping[str, Any]) -> None:
        words = operation["op"].split()
        if words[0] in STATES:
            STATES[words[0]](self.of_morrow, operation["op"])
        else:
            super().do(operation)


def _create_tag(metadata: TableMetadata, text: str) -> None:
    given = CREATE_TAG.fullmatch(text)
    assert given is not None, text
    number = given["id"] or given["of"]
    retained = dt.timedelta(hours=int(given["hours"])) if given["hours"] else None
    create_tag(metadata, given["name"], int(number) if number else None, time_retained=retained)


def _expire(metadata: TableMetadata, text: str) -> None:
    """Expire as Java was called: no snapshot is retained for its age."""
    numbers = dict(pair.split("=") for pair in text.split()[1:])
    most, least = int(numbers["max"]), int(numbers["min"])
    expire_snapshots(metadata, retain_max=most, retain_min=least, older_than_millis=time.time_ns())


def _roll_back(metadata: TableMetadata, text: str) -> None:
    *_, last = text.split()
    rollback_table(metadata, Travel(tag=last) if "tag" in text.split() else Travel(snapshot=int(last)))


def _consume(metadata: TableMetadata, text: str) -> None:
    for pair in text.split()[1:]:
        name, _, following = pair.partition("=")
        Consumers(metadata).record(name, int(following))


STATES: Mapping[str, Callable[[TableMetadata, str], object]] = {
    "createTag": _create_tag,
    "deleteTag": lambda metadata, text: delete_tag(metadata, text.split(" ", 1)[1]),
    "renameTag": lambda metadata, text: rename_tag(metadata, *text.split()[1:]),
    "replaceTag": lambda metadata, text: replace_tag(metadata, text.split()[1], int(text.split()[2])),
    "expireSnapshots": _expire,
    "rollbackTo": _roll_back,
    "consumers": _consume,
}
"""The function for the first word of an operation."""


def left(metadata: TableMetadata) -> dict[str, Any]:
    """Describe a table's files without random names: snapshots, tags, and the number of files of each kind."""
    root = Path(metadata.root)
    counted = Counter(
        f"{path.parent.relative_to(root)}/{path.name.split('-')[0]}"
        for path in root.rglob("*")
        if path.is_file() and path.parent.name not in ("snapshot", "tag", "changelog", "schema", "consumer")
    )
    hints = {path: path.read_text() for folder in ("snapshot", "changelog") for path in (root / folder).glob("[A-Z]*")}
    # Java writes the hint with the first commit, Morrow when the table no longer begins at its first snapshot.
    hints.setdefault(root / "snapshot" / "EARLIEST", str(metadata.snapshot_ids()[0]))
    return {
        "snapshots": metadata.snapshot_ids(),
        "tags": {tag.name: tag.snapshot.id for tag in metadata.tags()},
        "changelogs": sorted(path.name for path in (root / "changelog").glob("changelog-*")),
        "hints": {str(path.relative_to(root)): text for path, text in hints.items()},
        "files": dict(counted),
    }
