"""The files of one Spark scan, and the URLs under which Spark finds them.

The files of a scan have the same column names. If masks are joined, the size or name of a file identifies it.
Morrow's store reads metadata and masks with the options that it was given. Spark reads data files with its own file
systems, as configured in its session, from every executor's disk or from a store. It gets a URL without options.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from morrow.engine.format.schema import VALUE_KIND_FIELD
from morrow.engine.format.types import DataField
from morrow.engine.io.store import FileStore
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section, SectionKind
from morrow.engine.structs import replace
from morrow.readers.files.file_frames import list_written_fields
from morrow.readers.masks import Mask
from morrow.spark.jvm.file_scans import Scanning
from morrow.spark.reading.choice import Folders, find_base, read_fields

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Words: TypeAlias = npt.NDArray[np.int64]
Names: TypeAlias = tuple[str | None, ...]

MAX_JOINED_ROWS = 1 << 20
"""The maximum rows of files without a mask that join a scan of masked files: their look-ups cost less than a scan."""

MAX_REPETITIONS = 2
"""The maximum masked files of equal size that get separate scans. Beyond, all files are matched by name."""


@dataclass(frozen=True)
class MaskedFile:
    """A file that Spark scans, with its live rows."""

    section: Section
    file: DataFile
    mask: Mask


@dataclass(frozen=True)
class FileScan:
    """The files of one Spark scan.

    `folders`: if Spark takes the partition values from paths. `listed`: whether the file index has the values.
    """

    plan: ScanPlan
    files: tuple[MaskedFile, ...]
    names: Names
    drops: bool
    folders: Folders | None = None
    listed: bool = False

    @property
    def format(self) -> str:
        return self.files[0].file.format

    @property
    def paths(self) -> list[str]:
        return [each.file.path for each in self.files]

    @cached_property
    def fields(self) -> tuple[DataField, ...]:
        """The schema for Spark: columns under their names in the files, and partition columns.

        Stored columns are in the order of the read; columns from folder names come last.
        """
        names = {field.name: name for field, name in zip(read_fields(self.plan), self.names)}
        if self.listed:
            names |= {name: name for name in self.plan.schema.partition_keys}
        wanted = (name for name in self.plan.read_columns if names.get(name) is not None)
        stored = (replace(self.plan.schema.by_name[name], name=cast("str", names[name])) for name in wanted)
        kind = (VALUE_KIND_FIELD,) if self.drops else ()
        return (*stored, *kind, *(self.folders.fields if self.folders else ()))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the scan that need no conversion, in the order of the scan."""
        days = self.folders.days if self.folders else ()
        return tuple(field.name for field in self.fields if field.name not in days)

    @property
    def found(self) -> frozenset[str]:
        """The partition columns that are constants of the file index."""
        return frozenset(self.plan.schema.partition_keys) if self.listed else frozenset()

    @property
    def constants(self) -> Mapping[str, object]:
        """The partition's values, if Spark does not know them."""
        keys = self.plan.schema.partition_keys if self.folders is None and not self.listed else ()
        return dict(zip(keys, self.files[0].section.partition))


def group_alike(plan: ScanPlan, files: Sequence[MaskedFile]) -> Mapping[tuple[Names, bool, str], list[MaskedFile]]:
    """Group files with live rows by column names, by whether retractions are dropped, and by format."""
    read = read_fields(plan)
    shapes: dict[tuple[object, ...], Names] = {}
    groups: dict[tuple[Names, bool, str], list[MaskedFile]] = {}
    for each in files:
        if each.mask is None or each.mask.any():
            shape = each.file.schema_id, each.file.write_columns
            if shape not in shapes:
                shapes[shape] = _list_names(plan, each.file, read)
            groups.setdefault((shapes[shape], _is_dropping(plan, each), each.file.format), []).append(each)
    return groups


def group_scans(plan: ScanPlan, files: Sequence[MaskedFile]) -> list[FileScan]:
    """Group the files into as few scans as possible; leave out files without a live row."""
    partitioned = any(name in plan.schema.partition_keys for name in plan.read_columns)
    return [
        FileScan(plan, tuple(group), names, drops, folders)
        for (names, drops, _), some in group_alike(plan, files).items()
        for apart in group_by_mask(some)
        for alone in _group_identifiable(apart)
        for group, folders in (_group_by_partition(plan, alone) if partitioned else [(alone, None)])
    ]


def _list_names(plan: ScanPlan, file: DataFile, read: Sequence[DataField]) -> Names:
    """Return the names under which Spark has to select columns of a file; None for a missing column.

    A column added later is still selected, and null, unless another one has its name.
    """
    written = {field.id: field.name for field in list_written_fields(plan, file)}
    taken = {name.casefold() for name in written.values()}
    return tuple(written.get(f.id, None if f.name.casefold() in taken else f.name) for f in read)


def _is_dropping(plan: ScanPlan, each: MaskedFile) -> bool:
    """Return whether the scan drops retractions by their kind. The masks of a merge already exclude them."""
    return each.section.kind is SectionKind.RAW and plan.drops_retractions and each.file.may_hold_retractions


def group_by_mask(files: list[MaskedFile]) -> list[list[MaskedFile]]:
    """Separate files without a mask from those with a mask; a few of the former are read with the latter."""
    plain = [each for each in files if each.mask is None]
    masked = [each for each in files if each.mask is not None]
    if masked and sum(each.file.row_count for each in plain) <= MAX_JOINED_ROWS:
        return [[*masked, *plain]]
    return [group for group in (plain, masked) if group]


def _group_identifiable(files: list[MaskedFile]) -> list[list[MaskedFile]]:
    """Group masked files so that sizes or names identify each within its group."""
    if not is_masked(files):
        return [files]
    by_size, by_name = _group_repetitions(files, size_of), _group_repetitions(files, name_of)
    few = sum(each.file.row_count for each in files) <= MAX_JOINED_ROWS
    return by_size if len(by_size) <= (1 if few else MAX_REPETITIONS) else by_name


def _group_repetitions(files: list[MaskedFile], key: Callable[[MaskedFile], object]) -> list[list[MaskedFile]]:
    """Return the first files of all keys, then the second files, and so on."""
    seen: Counter[object] = Counter()
    groups: list[list[MaskedFile]] = []
    for each in files:
        number = seen[key(each)]
        seen[key(each)] += 1
        if number == len(groups):
            groups.append([])
        groups[number].append(each)
    return groups


def is_masked(files: Sequence[MaskedFile]) -> bool:
    return any(each.mask is not None for each in files)


def size_of(each: MaskedFile) -> int:
    return each.file.size


def name_of(each: MaskedFile) -> str:
    return each.file.path.rpartition("/")[2]


def _group_by_partition(plan: ScanPlan, files: list[MaskedFile]) -> list[tuple[list[MaskedFile], Folders | None]]:
    """Return one scan if Spark can parse the partitions from paths, else one scan for each partition."""
    by_value: dict[bytes, list[MaskedFile]] = {}
    for each in files:
        by_value.setdefault(each.section.partition_row, []).append(each)
    if len(by_value) > 1:
        base = find_base(plan, [(each.file.path, each.section.partition) for each in files])
        if base is not None:
            return [(files, base)]
    return [(group, None) for group in by_value.values()]


IN_OBJECT_STORE = "the files lie in an object store"

NO_FILE_SYSTEM = "no file system"
"""Part of the obstacle if Hadoop lacks a file system for a URL. It says the least, so other obstacles are preferred."""

ACCOUNTS = ("azure_storage_account_name", "account_name")
ACCOUNT_VARIABLE = "AZURE_STORAGE_ACCOUNT_NAME"


@dataclass(frozen=True)
class Place:
    """The URL that Spark uses as prefix of the store's paths, or the reason why it cannot reach the files."""

    url: str = ""
    obstacle: str | None = None


DISK = Place("file:")


class Located(Protocol):
    """A file that Spark has to find."""

    @property
    def path(self) -> str: ...

    @property
    def size(self) -> int: ...


def place_of(store: FileStore, file: Located | None, scanning: Scanning, spark: SparkSession) -> Place:
    """Return the place where Spark finds the files of a store; `file` is one of the files, to test it."""
    if store.is_local:
        return DISK
    if scanning.obstacle is not None or file is None:
        return Place(obstacle=IN_OBJECT_STORE)
    said = None
    for url in _list_urls(store):
        obstacle = scanning.reaches(spark, url + file.path, file.size)
        if obstacle is None:
            return Place(url)
        if said is None or NO_FILE_SYSTEM not in obstacle:
            said = obstacle
    return Place(obstacle=f"{IN_OBJECT_STORE}, and {said}" if said else IN_OBJECT_STORE)


def _list_urls(store: FileStore) -> Iterator[str]:
    """Yield the URLs that Spark may use for the store, Morrow's own first."""
    url = store.url("")
    scheme, _, rest = url.partition("://")
    yield url
    if scheme.lower() in OTHER_URLS:
        yield from OTHER_URLS[scheme.lower()](rest, store)


def _use_schemes(*schemes: str) -> Callable[[str, FileStore], Iterator[str]]:
    return lambda rest, _store: (f"{scheme}://{rest}" for scheme in schemes)


def _locate_azure(rest: str, store: FileStore) -> Iterator[str]:
    """Yield the URL of an Azure container in Hadoop's form, which includes the account."""
    container, _, path = rest.partition("/")
    given = {name.lower(): value for name, value in store.storage_options.items()}
    account = next((given[name] for name in ACCOUNTS if name in given), os.environ.get(ACCOUNT_VARIABLE))
    if account and "@" not in container:
        yield f"abfss://{container}@{account}.dfs.core.windows.net/{path}"


OTHER_URLS: Mapping[str, Callable[[str, FileStore], Iterator[str]]] = {
    "s3": _use_schemes("s3a"),
    "s3a": _use_schemes("s3"),
    "gs": _use_schemes("gcs"),
    "az": _locate_azure,
    "azure": _locate_azure,
    "adl": _locate_azure,
    "abfs": _locate_azure,
    "abfss": _locate_azure,
}
"""By the scheme of Morrow's URL, functions that yield possible Hadoop URLs of the same store."""
