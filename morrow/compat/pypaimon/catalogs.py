"""pypaimon's catalogs over `morrow.Catalog`."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from morrow.catalogs.profiles import open_with
from morrow.compat.pypaimon.predicates import like_to_regex
from morrow.compat.pypaimon.schemas import Identifier, Schema
from morrow.compat.pypaimon.tables import FileStoreTable, SystemTable, alter
from morrow.engine import errors
from morrow.engine.catalog.databases import COMMENT, LOCATION, OWNER
from morrow.engine.errors import DatabaseNotFound, NotFound, TableNotFound

if TYPE_CHECKING:
    from morrow.catalogs.catalog import Catalog as MorrowCatalog
    from morrow.engine.format.snapshot import Snapshot
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


@dataclass(frozen=True)
class GetTagResponse:
    """A tag of a table."""

    tag_name: str
    snapshot: Snapshot
    tag_create_time: dt.datetime | None = None
    tag_time_retained: dt.timedelta | None = None


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
        """The name of the partition: ``dt=2024-05-14/h=1``."""
        return "/".join(f"{key}={value}" for key, value in self.spec.items())


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
            found = self._table(identifier).tags.get(tag_name)
        return GetTagResponse(tag_name, found.snapshot, found.create_time, found.time_retained)

    def list_partitions_paged(
        self,
        identifier: Name,
        max_results: int | None = None,  # noqa: ARG002  # all partitions are one page
        page_token: str | None = None,  # noqa: ARG002
        partition_name_pattern: str | None = None,
    ) -> PagedList:
        """Return the partitions whose names match a pattern with ``%`` and ``_``, as one page."""
        pattern = re.compile(like_to_regex(partition_name_pattern or "%"))
        rows = self._table(identifier).system("partitions").to_arrow().to_pylist()
        named = [Partition.of(row) for row in rows]
        return PagedList([each for each in named if pattern.match(each.name)])

    def list_tags_paged(
        self,
        identifier: Name,
        max_results: int | None = None,  # noqa: ARG002  # all tags are one page
        page_token: str | None = None,  # noqa: ARG002
        tag_name_prefix: str | None = None,
    ) -> PagedList:
        """Return the names of all tags with this prefix, as one page."""
        return PagedList([n for n in self._table(identifier).tags.names if n.startswith(tag_name_prefix or "")])

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
        with name_errors(branch=from_branch):
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
