"""pypaimon's catalogs over `morrow.Catalog`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from morrow.catalogs.catalog import open_with
from morrow.compat.pypaimon.schemas import Identifier, Schema
from morrow.compat.pypaimon.tables import FileStoreTable, SystemTable, alter
from morrow.engine import errors
from morrow.engine.catalog.databases import COMMENT, LOCATION, OWNER
from morrow.engine.errors import DatabaseNotFound, NotFound, TableNotFound
from morrow.engine.units import MILLIS_PER_SECOND
from morrow.readers.system.registry import format_duration

if TYPE_CHECKING:
    from morrow.catalogs.catalog import Catalog as MorrowCatalog
    from morrow.engine.format.snapshot import Snapshot, Tag
    from morrow.engine.schema.schema_changes import SchemaChange
    from morrow.tables.table import Table

Name = str | Identifier

CatalogException = errors.MorrowError
DatabaseNotExistException = errors.DatabaseNotFound
TableNotExistException = errors.TableNotFound
ColumnNotExistException = errors.ColumnNotFound
TagNotExistException = errors.TagNotFound
BranchNotExistException = errors.BranchNotFound
DatabaseAlreadyExistException = errors.AlreadyExists
TableAlreadyExistException = errors.AlreadyExists
ColumnAlreadyExistException = errors.AlreadyExists
TagAlreadyExistException = errors.AlreadyExists
BranchAlreadyExistException = errors.AlreadyExists


@dataclass(frozen=True)
class Database:
    """A database with its properties."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None


@dataclass(frozen=True)
class PagedList:
    """A page of results, and the token of the next page."""

    elements: list[Any]
    next_page_token: str | None = None

    @classmethod
    def of(cls, named: Mapping[str, Any], most: int | None, after: str | None) -> PagedList:
        """Return the page of elements whose names come after the name `after`; the last name is the next token."""
        names = sorted(name for name in named if after is None or name > after)
        page = names[:most] if most else names
        return cls([named[name] for name in page], page[-1] if len(page) < len(names) else None)


@dataclass(frozen=True)
class GetTagResponse:
    """A tag of a table."""

    tag_name: str
    snapshot: Snapshot
    tag_create_time: int | None = None
    tag_time_retained: str | None = None

    @classmethod
    def of(cls, tag: Tag) -> GetTagResponse:
        """Describe a tag: its time of creation in epoch milliseconds, its retention as in ISO 8601."""
        created, kept = tag.create_time, tag.time_retained
        millis = None if created is None else int(created.timestamp() * MILLIS_PER_SECOND)
        return cls(tag.name, tag.snapshot, millis, None if kept is None else format_duration(kept))


@dataclass(frozen=True)
class Partition:
    """A partition: the values of its columns as text, and the numbers of its rows, bytes and files."""

    spec: Mapping[str, str]
    record_count: int
    file_size_in_bytes: int
    file_count: int

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Partition:
        """Read a row of the system table ``partitions``."""
        spec = dict(part.split("=", 1) for part in row["partition"].split("/"))
        return cls(spec, row["record_count"], row["file_size_in_bytes"], row["file_count"])

    @property
    def name(self) -> str:
        """The name of the partition: ``dt=2024-05-14,h=1``."""
        return ",".join(f"{key}={value}" for key, value in self.spec.items())


@contextmanager
def name_errors(**names: object) -> Iterator[None]:
    """Add the names of pypaimon's exceptions (``error.tag``) to the errors of a block."""
    try:
        yield
    except errors.MorrowError as error:
        vars(error).update(names)
        raise


class CatalogFactory:
    """The factory of catalogs."""

    @staticmethod
    def create(catalog_options: Mapping[str, Any]) -> Catalog:
        """Open a catalog by its options: ``warehouse``, ``metastore``, ``uri`` and others.

        Raises as `morrow.open_catalog`; profiles and the environment are not read.
        """
        return Catalog(open_with(dict(catalog_options)))


class Catalog:
    """A catalog. `morrow` is the same catalog with Morrow's own methods."""

    def __init__(self, catalog: MorrowCatalog) -> None:
        self.morrow = catalog

    @property
    def warehouse(self) -> str:
        return self.morrow.warehouse

    def list_databases(self) -> list[str]:
        """Return the names of all databases."""
        return self.morrow.databases()

    def get_database(self, name: str) -> Database:
        """Return a database. Raises `DatabaseNotFound`."""
        found = self.morrow.database(name)
        own = {COMMENT: found.comment, OWNER: found.owner, LOCATION: found.location}
        kept = {key: value for key, value in own.items() if value is not None}
        return Database(name, {**found.properties, **kept}, found.comment)

    def create_database(
        self, name: str, ignore_if_exists: bool = False, properties: Mapping[str, str] | None = None
    ) -> None:
        """Create a database. Raises as `morrow.Catalog.create_database`."""
        self.morrow.create_database(name, properties=properties, ignore_if_exists=ignore_if_exists)

    def drop_database(self, name: str, ignore_if_not_exists: bool = False, cascade: bool = False) -> None:
        """Drop a database; with `cascade` its tables too."""
        self.morrow.drop_database(name, cascade=cascade, ignore_if_not_exists=ignore_if_not_exists)

    def list_tables(self, database_name: str) -> list[str]:
        """Return the names of the tables of a database."""
        return self.morrow.tables(database_name)

    def get_table(self, identifier: Name) -> Any:
        """Return a table, on its branch (``db.t$branch_x``), or a system table (``db.t$snapshots``).

        Raises:
            TableNotFound: the table or its database does not exist. BranchNotFound.
        """
        name = Identifier.of(identifier)
        try:
            table = self.morrow.table(name.name, branch=name.get_branch_name())
        except DatabaseNotFound as error:
            raise TableNotFound(str(error)) from error
        return SystemTable(table, name) if name.is_system_table() else FileStoreTable(table, name)

    def create_table(self, identifier: Name, schema: Schema, ignore_if_exists: bool = False) -> None:
        """Create a table in a database that exists.

        Raises:
            DatabaseNotFound. Others as `morrow.Catalog.create_table`.
        """
        name = Identifier.of(identifier)
        self.morrow.database(name.database)
        self.morrow.create_table(
            name.name,
            schema.to_columns(),
            primary_keys=schema.primary_keys,
            partition_keys=schema.partition_keys,
            options=schema.options,
            comment=schema.comment,
            ignore_if_exists=ignore_if_exists,
        )

    def drop_table(self, identifier: Name, ignore_if_not_exists: bool = False) -> None:
        """Drop a table with its files."""
        try:
            self.morrow.drop_table(Identifier.of(identifier).name, ignore_if_not_exists=ignore_if_not_exists)
        except DatabaseNotFound as error:
            if not ignore_if_not_exists:
                raise TableNotFound(str(error)) from error

    def rename_table(self, source_identifier: Name, target_identifier: Name) -> None:
        """Rename a table."""
        self.morrow.rename_table(Identifier.of(source_identifier).name, Identifier.of(target_identifier).name)

    def alter_table(
        self, identifier: Name, changes: Sequence[SchemaChange], ignore_if_not_exists: bool = False
    ) -> None:
        """Change a table's schema by `SchemaChange` values, as one version or not at all."""
        try:
            table = self._table(identifier)
        except NotFound:
            if not ignore_if_not_exists:
                raise
            return
        alter(table, changes)

    def load_snapshot(self, identifier: Name) -> Any:
        """Return the newest snapshot of a table, None without snapshots."""
        return self._table(identifier)._metadata.latest_snapshot()

    def drop_partitions(self, identifier: Name, partitions: Sequence[Mapping[str, Any]]) -> None:
        """Delete all rows of partitions."""
        self._table(identifier).drop_partitions(*partitions)

    def rollback_to(self, identifier: Name, instant: int | str) -> None:
        """Roll a table back to a snapshot (int) or tag (text)."""
        self.get_table(identifier).rollback_to(instant)

    def create_tag(
        self,
        identifier: Name,
        tag_name: str,
        snapshot_id: int | None = None,
        time_retained: str | None = None,
        ignore_if_exists: bool = False,
    ) -> None:
        """Tag a snapshot, by default the newest."""
        with name_errors(tag=tag_name):
            self._table(identifier).tags.create(tag_name, snapshot_id, time_retained, ignore_if_exists)

    def delete_tag(self, identifier: Name, tag_name: str) -> None:
        """Delete a tag. Raises `TagNotFound`."""
        with name_errors(tag=tag_name):
            self._table(identifier).tags.delete(tag_name)

    def get_tag(self, identifier: Name, tag_name: str) -> GetTagResponse:
        """Return a tag: its name, snapshot and retention. Raises `TagNotFound`."""
        with name_errors(tag=tag_name):
            return GetTagResponse.of(self._table(identifier).tags.get(tag_name))

    def list_partitions_paged(
        self,
        identifier: Name,
        max_results: int | None = None,
        page_token: str | None = None,
        partition_name_pattern: str | None = None,
    ) -> PagedList:
        """Return the partitions whose names (``dt=2024-05-14,h=1``) match a pattern, in which ``*`` is any text."""
        pattern = re.compile(".*".join(map(re.escape, (partition_name_pattern or "*").split("*"))), re.DOTALL)
        rows = self._table(identifier).system("partitions").to_arrow().to_pylist()
        named = {each.name: each for each in map(Partition.of, rows) if pattern.fullmatch(each.name)}
        return PagedList.of(named, max_results, page_token)

    def list_tags_paged(
        self,
        identifier: Name,
        max_results: int | None = None,
        page_token: str | None = None,
        tag_name_prefix: str | None = None,
    ) -> PagedList:
        """Return the names of the tags with this prefix."""
        names = self._table(identifier).tags.names
        return PagedList.of({n: n for n in names if n.startswith(tag_name_prefix or "")}, max_results, page_token)

    def create_branch(self, identifier: Name, branch_name: str, tag_name: str | None = None) -> None:
        """Create a branch of the newest schema, or of a tag."""
        with name_errors(branch=branch_name, tag=tag_name):
            self._table(identifier).branches.create(branch_name, tag=tag_name)

    def drop_branch(self, identifier: Name, branch_name: str) -> None:
        """Delete a branch."""
        with name_errors(branch=branch_name):
            self._table(identifier).branches.delete(branch_name)

    def rename_branch(self, identifier: Name, from_branch: str, to_branch: str) -> None:
        """Rename a branch."""
        with name_errors(branch=to_branch if to_branch in self.list_branches(identifier) else from_branch):
            self._table(identifier).branches.rename(from_branch, to_branch)

    def fast_forward(self, identifier: Name, branch_name: str) -> None:
        """Fast-forward main to a branch."""
        with name_errors(branch=branch_name):
            self._table(identifier).branches.fast_forward(branch_name)

    def list_branches(self, identifier: Name) -> list[str]:
        """Return the names of all branches but main."""
        return self._table(identifier).branches.list()

    def _table(self, identifier: Name) -> Table:
        name = Identifier.of(identifier)
        return self.morrow.table(name.name, branch=name.get_branch_name())
