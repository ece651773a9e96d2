"""Success files: ``tag/tag-success-file/<name>_SUCCESS``, which tell other systems that a tag exists.

{
  "creationTime" : 1715644800000,        epoch milliseconds: when the file was made
  "modificationTime" : 1715644800000     and when it was last written
}
"""

from __future__ import annotations

from morrow.engine.errors import FileMissing
from morrow.engine.format.json_file import built, parse_object, printed
from morrow.engine.format.paths import segment
from morrow.engine.plan.metadata import TAG_PREFIX, TableMetadata

SUCCESS_FOLDER = "success-file"
"""The folder of success files, which lies beside the tags under the file name of a tag of this name."""
SUFFIX = "_SUCCESS"
CREATED = "creationTime"
MODIFIED = "modificationTime"


def success_path(metadata: TableMetadata, name: str) -> str:
    """Returns the path of the success file of this tag."""
    folder = f"{metadata.paths.tag_dir}/{TAG_PREFIX}{SUCCESS_FOLDER}"
    return f"{folder}/{segment(name + SUFFIX, folder)}"


def write_success(metadata: TableMetadata, name: str, millis: int) -> None:
    """Writes the success file of a tag with the time `millis`; an existing file keeps its creation time.

    Raises:
        CorruptFile: the existing file is damaged. StorageError: it cannot be written.
    """
    write_success_at(metadata, success_path(metadata, name), millis)


def write_success_at(metadata: TableMetadata, path: str, millis: int) -> None:
    """Writes a success file; arguments and errors as for `write_success`."""
    created = _created(metadata, path)
    metadata.store.write(path, printed({CREATED: millis if created is None else created, MODIFIED: millis}))


def remove_success(metadata: TableMetadata, name: str) -> bool:
    """Removes the success file of a tag; returns False when there was none."""
    return metadata.store.delete(success_path(metadata, name))


def _created(metadata: TableMetadata, path: str) -> int | None:
    try:
        data = metadata.store.read(path)
    except FileMissing:
        return None
    return built(path, lambda node: int(node[CREATED]), parse_object(data, path))
