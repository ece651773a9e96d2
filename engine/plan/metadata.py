"""One table's metadata on disk: the newest schema and snapshot, tags and branches, found and read on demand."""

from __future__ import annotations

from dataclasses import dataclass

from morrow.engine.arguments import is_name
from morrow.engine.errors import BranchNotFound, FileMissing, InvalidArgument, TableNotFound, TagNotFound, Unsupported
from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.snapshot import Snapshot, Tag, parse_tag
from morrow.engine.format.types import BlobType
from morrow.engine.io.ahead import each
from morrow.engine.options import TableOptions, parse_options
from morrow.engine.options.declared.features import BLOB_AS_DESCRIPTOR
from morrow.engine.plan.listing import near_folder, tables_below
from morrow.engine.plan.metadata_files import MetadataFiles
from morrow.engine.plan.newest import newest_schema_of, newest_snapshot_of
from morrow.engine.telling import did_you_mean
from morrow.engine.values import replace

TAG_PREFIX = "tag-"
BRANCH_PREFIX = "branch-"


@dataclass(frozen=True)
class TableMetadata(MetadataFiles):
    """The metadata of a table: its files, and what they say of its newest state."""

    def on_branch(self, branch: str) -> TableMetadata:
        """Returns the same table on another branch.

        Raises:
            BranchNotFound: the table has no such branch. InvalidArgument, UnsafePath: not a valid branch name.
        """
        if not isinstance(branch, str) or not branch.strip():
            raise InvalidArgument(f"{branch!r} is no name of a branch")
        other = self.at_branch(branch)
        if branch != MAIN_BRANCH and not self.store.is_dir(other.paths.schema_dir):
            names = [MAIN_BRANCH, *self.branch_names()]
            known, hint = ", ".join(names), did_you_mean(branch, names)
            raise BranchNotFound(
                f"{self.store.url(self.root)}: there is no branch {branch!r}; {hint}the branches are {known}"
            )
        return other

    def at_branch(self, branch: str) -> TableMetadata:
        """Returns the same table on another branch, which need not exist."""
        return TableMetadata(self.store, self.root, branch, self.allowed_roots, self.owner)

    def knowing(self, schema: TableSchema) -> TableMetadata:
        """Returns the same table for the length of one plan or commit, which has read this schema."""
        return replace(self, known={**self.known, schema.id: schema})

    # The newest state

    def latest_schema(self) -> TableSchema:
        """Returns the newest schema.

        Raises:
            TableNotFound: the folder does not exist or holds no schema.
        """
        found = newest_schema_of(self)
        if found is None:
            there = self.store.is_dir(self.root)
            what = "holds no Paimon schema (schema/schema-<id>)" if there else "does not exist, or is no folder"
            tables = tables_below(self.store, self.root) if there else []
            hint = f"its tables are {', '.join(tables)}" if tables else "such as warehouse/db.db/table"
            near = "" if there else near_folder(self.store, self.root)
            raise TableNotFound(f"{self.where}: the folder {what}; {near}give the folder of a table: {hint}")
        return found

    def latest_snapshot(self) -> Snapshot | None:
        """Returns the newest committed snapshot, None when nothing was committed."""
        return newest_snapshot_of(self)

    def options(self, schema: TableSchema) -> TableOptions:
        """Returns the options of this schema, parsed and checked.

        Raises: as `parse_options`.
        """
        options = parse_options(schema.options, where=self.where)
        if options.given.get(BLOB_AS_DESCRIPTOR) and any(isinstance(field.type, BlobType) for field in schema.fields):
            hint = f"it gives descriptors in place of bytes; set {BLOB_AS_DESCRIPTOR} = false"
            raise Unsupported(
                f"the option {BLOB_AS_DESCRIPTOR} of a table with BLOB columns", where=self.where, hint=hint
            )
        return options

    # Tags and branches

    def tag_names(self) -> list[str]:
        """Returns the names of all tags, sorted."""
        listed = self.store.list(self.paths.tag_dir)
        return sorted(
            status.name.removeprefix(TAG_PREFIX)
            for status in listed
            if status.name.startswith(TAG_PREFIX) and not status.is_dir
        )

    def tag(self, name: str) -> Tag:
        """Returns the tag of this name.

        Raises:
            TagNotFound: there is none. InvalidArgument: not a valid tag name.
        """
        if not is_name(name) or not name.strip() or any(c in name for c in "/\\"):
            raise InvalidArgument(f"{name!r} is no name of a tag")
        found = self._tag_or_none(name)
        if found is None:
            names = self.tag_names()
            known, hint = ", ".join(names) or "none", did_you_mean(name, names)
            raise TagNotFound(f"{self.where}: there is no tag {name!r}; {hint}the tags are: {known}")
        return found

    def _tag_or_none(self, name: str) -> Tag | None:
        path = self.paths.tag(name)
        try:
            return parse_tag(self.store.read(path), name, path)
        except FileMissing:
            return None

    def tags(self) -> list[Tag]:
        """Returns all tags by the id of their snapshot, then by name; tags deleted meanwhile are left out."""
        found = (tag for tag in each(self.store, self._tag_or_none, self.tag_names()) if tag is not None)
        return sorted(found, key=lambda tag: (tag.snapshot.id, tag.name))

    def branch_names(self) -> list[str]:
        """Returns the names of all branches except main, sorted."""
        listed = self.store.list(self.paths.branches_dir)
        return sorted(
            s.name.removeprefix(BRANCH_PREFIX) for s in listed if s.name.startswith(BRANCH_PREFIX) and s.is_dir
        )
