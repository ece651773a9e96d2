"""Tags deleted: which files go with them. What Java leaves of the golden tables is in `test_golden`."""

from __future__ import annotations

from pathlib import Path

import pytest

import morrow
from morrow.engine.errors import InvalidArgument, StorageError, TagNotFound
from morrow.engine.io.local import LocalStore
from morrow.engine.plan.metadata import TableMetadata
from morrow.writers.history.tags.changing import replace_tag
from morrow.writers.history.tags.creation import create_tag
from morrow.writers.history.tags.deletion import delete_tag, delete_tags
from morrow.writers.history.tombstones import finish_removals
from tests.support.commits import names
from tests.support.tags import expire, tags
from tests.support.written import new_table, rows

KEEP = {"snapshot.num-retained.min": "10", "tag.create-success-file": "true"}


class Tagged:
    """A table whose rows were replaced twice: three snapshots, each of which has a data file that no other needs."""

    def __init__(self, folder: Path) -> None:
        self.table = new_table(folder, "a INT", options=KEEP)
        self.path = Path(self.table.path)
        for number in (1, 2, 3):
            self.table.overwrite([{"a": number}])
        self.metadata = TableMetadata(LocalStore(), str(self.path))
        self.data = {number: self._data_of(number) for number in (1, 2, 3)}

    def _data_of(self, snapshot: int) -> str:
        (file,) = self.table.scan(snapshot=snapshot).plan.files
        return Path(file.path).name

    def there(self) -> set[int]:
        """Lists the snapshots whose data file is there."""
        files = {path.name for path in self.path.rglob("data-*")}
        return {number for number, name in self.data.items() if name in files}

    def lists(self) -> int:
        return len([name for name in names(f"{self.path}/manifest") if name.startswith("manifest-list")])


@pytest.fixture
def tagged(tmp_path: Path) -> Tagged:
    """The tags v1 of snapshot 1 and v2 of snapshot 2, which have expired."""
    made = Tagged(tmp_path)
    create_tag(made.metadata, "v1", 1)
    create_tag(made.metadata, "v2", 2)
    expire(made.metadata, 1, 2)
    return made


def test_what_only_the_tag_needs_goes_with_it(tagged: Tagged) -> None:
    assert delete_tag(tagged.metadata, "v1")

    assert tagged.there() == {2, 3}
    assert tagged.lists() == 4  # a base list and a delta list of each snapshot that is left
    assert names(tagged.metadata.paths.tag_dir) == ["tag-success-file", "tag-v2"]
    assert names(f"{tagged.metadata.paths.tag_dir}/tag-success-file") == ["v2_SUCCESS"]
    assert rows(morrow.open(str(tagged.path)), tag="v2") == [(2,)]


def test_what_another_tag_needs_stays(tagged: Tagged) -> None:
    create_tag(tagged.metadata, "too", 1)

    delete_tag(tagged.metadata, "v1")
    assert tagged.there() == {1, 2, 3}

    delete_tag(tagged.metadata, "too")
    assert tagged.there() == {2, 3}


def test_while_the_snapshot_is_alive_nothing_is_removed(tagged: Tagged) -> None:
    create_tag(tagged.metadata, "v3", 3)
    before = tagged.lists()

    delete_tag(tagged.metadata, "v3")

    assert (tagged.there(), tagged.lists()) == ({1, 2, 3}, before)


def test_several_at_once(tagged: Tagged) -> None:
    assert delete_tags(tagged.metadata, ["v1", "nothing", "v2"]) == ["v1", "v2"]
    assert tagged.there() == {3}


def test_a_tag_that_is_not_there(tagged: Tagged) -> None:
    with pytest.raises(TagNotFound, match="there is no tag 'nothing'; the tags are: v1, v2"):
        delete_tag(tagged.metadata, "nothing")
    assert not delete_tag(tagged.metadata, "nothing", ignore_if_not_exists=True)
    with pytest.raises(InvalidArgument):
        delete_tag(tagged.metadata, "../snapshot/snapshot-3", ignore_if_not_exists=True)


def test_a_numeric_tag_that_java_has_made_can_be_deleted(tagged: Tagged) -> None:
    Path(tagged.metadata.paths.tag("v1")).rename(tagged.metadata.paths.tag("123"))

    assert delete_tag(tagged.metadata, "123")
    assert tagged.there() == {2, 3}


def test_a_tag_that_was_moved_to_another_snapshot_lets_the_old_one_go(tagged: Tagged) -> None:
    replace_tag(tagged.metadata, "v1", 3)

    assert tagged.there() == {2, 3}
    assert tags(tagged.metadata) == {"v2": 2, "v1": 3}
    assert names(tagged.metadata.paths.tag_dir) == ["tag-success-file", "tag-v1", "tag-v2"]


class _Full(LocalStore):
    """Its files cannot be removed."""

    def delete_many(self, paths: object) -> None:  # noqa: ARG002
        raise StorageError("a bad disk")


def test_the_next_maintenance_removes_what_could_not_be_removed(tagged: Tagged) -> None:
    with pytest.raises(StorageError, match="a bad disk"):
        delete_tag(TableMetadata(_Full(), str(tagged.path)), "v1")
    assert tags(tagged.metadata) == {"v2": 2}
    assert tagged.there() == {1, 2, 3}

    finish_removals(tagged.metadata)

    assert tagged.there() == {2, 3}
    assert names(tagged.metadata.paths.tag_dir) == ["tag-success-file", "tag-v2"]
