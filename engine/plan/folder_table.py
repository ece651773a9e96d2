"""Tables that are folders of files, without snapshots: format tables (rows) and object tables (the files themselves).

The files of a format table lie in the table's folder, or below it in folders ``key=value`` of its partition keys. The
files do not contain the partition values. Names that begin with ``_`` or ``.`` belong to unfinished jobs and are left
out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.paths import escape_path_name, unescape_path_name
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.types import BigIntType, DataField, VarCharType
from morrow.engine.io.store import FileStatus, FileStore
from morrow.engine.options.declarations import Options
from morrow.engine.options.declared.connectors import FORMAT_TABLE_PARTITION_PATH_ONLY_VALUE
from morrow.engine.options.declared.files import FILE_FORMAT
from morrow.engine.options.declared.table import PARTITION_DEFAULT_NAME

FORMAT_TABLE, OBJECT_TABLE = "format-table", "object-table"
FORMATS = ("parquet", "orc", "csv", "json", "text")
HIDDEN = ("_", ".")
OBJECT_FIELDS = (
    DataField(0, "path", VarCharType(nullable=False), "Relative path of object"),
    DataField(1, "name", VarCharType(nullable=False), "Name of object"),
    DataField(2, "length", BigIntType(nullable=False), "Bytes length of object"),
    DataField(3, "mtime", BigIntType(nullable=False), "Modification time of object"),
    DataField(4, "atime", BigIntType(nullable=False), "Access time of object"),
    DataField(5, "owner", VarCharType(), "Owner of object"),
)
"""The columns of an object table, as in Java. Stores report neither access times (0) nor owners (null)."""


@dataclass(frozen=True)
class FolderFile:
    """A file: its path in the store and below the table, and the partition values as text, None for null."""

    path: str
    relative: str
    status: FileStatus
    partition: tuple[str | None, ...] = ()


class PartitionRegistry(Protocol):
    """The partitions of a format table that a catalog keeps: the values as text by key, as in the folders' names."""

    def specs(self) -> list[dict[str, str]]:
        """Return all partitions."""

    def create(
        self,
        specs: Sequence[Mapping[str, str]],
        statistics: Sequence[Mapping[str, object]] = (),
        *,
        ignore_if_exists: bool = True,
    ) -> None:
        """Register partitions, and replace their statistics if given. Raises `AlreadyExists`."""

    def drop(self, specs: Sequence[Mapping[str, str]]) -> None:
        """Unregister partitions, without their files; missing ones are ignored."""


@dataclass(frozen=True)
class FolderTable:
    """A table as its catalog describes it. `where` is its name in messages."""

    store: FileStore
    root: str
    kind: str
    schema: TableSchema
    where: str
    is_hives: bool = False
    """Whether Hive also reads and writes the files."""
    registry: PartitionRegistry | None = None
    """The partitions in the catalog, if ``metastore.partitioned-table`` is set: other folders are not read."""

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The columns of the rows."""
        return OBJECT_FIELDS if self.kind == OBJECT_TABLE else self.schema.fields

    @property
    def given(self) -> Options:
        """The options by declaration."""
        return Options(self.schema.options, self.where)

    @property
    def format(self) -> str:
        """The format of the files. Raises `Unsupported` for one that format tables do not have."""
        found = self.given.get(FILE_FORMAT).lower()
        if found not in FORMATS:
            hint = f"its formats are {', '.join(FORMATS)}"
            raise Unsupported(f"a format table of the format {found!r}", where=self.where, hint=hint)
        return found

    @property
    def stored_fields(self) -> tuple[DataField, ...]:
        """The columns that the files hold."""
        return tuple(each for each in self.schema.fields if each.name not in self.schema.partition_keys)

    def files(self) -> list[FolderFile]:
        """Return the files with rows (format tables), or all files (object tables), in the order of their paths.

        Raises `Unsupported`: a file of a format table lies outside of the partition folders. `StorageError`.
        """
        found = self._list_partitioned() if self.kind == FORMAT_TABLE else self._below()
        known = None if self.registry is None else set(self.list_partitions().values())
        return sorted(
            (each for each in found if known is None or each.partition in known), key=lambda each: each.relative
        )

    def list_partitions(self, *, registered: bool = True) -> dict[str, tuple[str | None, ...]]:
        """Return the partitions by their folders below the table: those in the catalog, or all folders.

        Raises: as `files`.
        """
        if registered and self.registry is not None:
            default = self.given.get(PARTITION_DEFAULT_NAME)
            specs = [[spec[key] for key in self.schema.partition_keys] for spec in self.registry.specs()]
            return {
                self.folder_of(texts): tuple(None if text == default else text for text in texts) for texts in specs
            }
        count = len(self.schema.partition_keys)
        folders: dict[str, tuple[str | None, ...]] = {}
        prefix = len(self.root) + 1 if self.root else 0
        for listed in self.store.walk(self.root):
            for path, status in listed:
                parts = path[prefix:].split("/")
                parts = parts if status.is_dir else parts[:-1]
                if len(parts) >= count and not any(part.startswith(HIDDEN) for part in parts[:count]):
                    folder = "/".join(parts[:count])
                    if folder not in folders:
                        folders[folder] = self.partition_in(parts[:count], path)
        return folders

    def folder_of(self, texts: Sequence[str | None]) -> str:
        """Return the folder of a partition below the table. Raises `InvalidArgument` for values that name no folder."""
        default, only_values = (
            self.given.get(PARTITION_DEFAULT_NAME),
            self.given.get(FORMAT_TABLE_PARTITION_PATH_ONLY_VALUE),
        )
        names = [escape_path_name(default if text is None else text) for text in texts]
        if only_values and (bad := [name for name in names if name in ("", ".", "..")]):
            raise InvalidArgument(f"{self.where}: the partition value {bad[0]!r} names no folder")
        keys = map(escape_path_name, self.schema.partition_keys)
        return "/".join(name if only_values else f"{key}={name}" for key, name in zip(keys, names, strict=True))

    def to_specs(self, partitions: Iterable[tuple[str | None, ...]]) -> list[dict[str, str]]:
        """Return the values of partitions as text by key; null is the default partition's name."""
        default, keys = self.given.get(PARTITION_DEFAULT_NAME), self.schema.partition_keys
        return [
            dict(zip(keys, (default if text is None else text for text in texts), strict=True)) for texts in partitions
        ]

    def _below(self) -> Iterator[FolderFile]:
        prefix = len(self.root) + 1 if self.root else 0
        for listed in self.store.walk(self.root):
            for path, status in listed:
                if not status.is_dir:
                    yield FolderFile(path, path[prefix:], status)

    def _list_partitioned(self) -> Iterator[FolderFile]:
        keys = self.schema.partition_keys
        default = self.given.get(PARTITION_DEFAULT_NAME)
        only_values = self.given.get(FORMAT_TABLE_PARTITION_PATH_ONLY_VALUE)
        for file in self._below():
            *folders, name = file.relative.split("/")
            outer, inner = folders[: len(keys)], folders[len(keys) :]
            hidden = [each for each in outer if each.startswith(HIDDEN) and not (only_values and each == default)]
            if hidden or name.startswith(HIDDEN) or any(each.startswith(HIDDEN) for each in inner):
                continue
            if len(outer) < len(keys):
                raise Unsupported(
                    f"a file beside the folders of the partition keys {', '.join(keys)}",
                    where=file.path,
                    hint="move it into the folder of its partition, or away",
                )
            yield FolderFile(file.path, file.relative, file.status, self.partition_in(outer, file.path))

    def partition_in(self, folders: Sequence[str], path: str) -> tuple[str | None, ...]:
        """Return the partition values as text, from the names of the folders; None for null.

        Raises `Unsupported`: a folder is not named after its key; `path` is the file in it.
        """
        default = self.given.get(PARTITION_DEFAULT_NAME)
        only_values = self.given.get(FORMAT_TABLE_PARTITION_PATH_ONLY_VALUE)
        texts = []
        for key, folder in zip(self.schema.partition_keys, folders, strict=True):
            found, equals, text = ("", "=", folder) if only_values else folder.partition("=")
            if not equals or (found and unescape_path_name(found) != key):
                raise Unsupported(
                    f"a file in {folder!r}, which is not a folder of the partition key {key!r},",
                    where=path,
                    hint="move it into the folder of its partition, or away",
                )
            texts.append(unescape_path_name(text))
        return tuple(None if text == default else text for text in texts)
