"""Assignment of row ids and snapshot numbers to new files at commit, for tables with ``row-tracking.enabled``."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.data_file_meta import FileSource, ManifestEntry
from morrow.engine.format.schema import ROW_ID

BLOB_SUFFIX = ".blob"


def assigned(
    entries: Sequence[ManifestEntry], snapshot_id: int, next_row_id: int
) -> tuple[tuple[ManifestEntry, ...], int]:
    """Returns the entries with their row ids, and the next free row id.

    Files without sequence numbers take the id of the snapshot. Appended files get the next row ids in their order,
    unless they carry ids; a blob file shares those of the data file before it, each blob column from its first row.

    Raises:
        InvalidArgument: a file of unknown source, or a blob file that belongs to no data file.
    """
    result: list[ManifestEntry] = []
    start = next_row_id
    data_start = next_row_id
    blob_starts: dict[str, int] = {}
    for entry in entries:
        file = entry.file
        if file.min_sequence_number == 0:
            file = msgspec.structs.replace(file, min_sequence_number=snapshot_id, max_sequence_number=snapshot_id)
        if file.file_source is None:
            raise InvalidArgument(f"the file {file.file_name} of a table with row tracking has no source")
        carries_ids = file.write_cols is not None and ROW_ID in file.write_cols
        if file.file_source == FileSource.APPEND and file.first_row_id is None and not carries_ids:
            if file.file_name.endswith(BLOB_SUFFIX):
                column = (file.write_cols or ("",))[0]
                first = blob_starts.get(column, data_start)
                if first >= start:
                    raise InvalidArgument(f"the blob file {file.file_name} belongs to no data file of its commit")
                blob_starts[column] = first + file.row_count
            else:
                first = data_start = start
                blob_starts.clear()
                start += file.row_count
            file = msgspec.structs.replace(file, first_row_id=first)
        result.append(msgspec.structs.replace(entry, file=file))
    return tuple(result), start
