"""Another package that provides a merge engine, as it is after an installation: a zip with its entry points.

The engine ``oldest`` keeps the version of a key with the lowest value in the column of its option ``oldest.field``.
"""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

ENTRY_POINTS = """
[morrow.merge_engines]
oldest = oldest_engine:ENGINE
"""

ENGINE = """
from morrow.engine.errors import InvalidArgument
from morrow.engine.merge.engines import MergeEngine
from morrow.engine.merge.spec import MergeSpec, Rule


def describe(schema, options, where):
    field = options.raw.get("oldest.field")
    return MergeSpec("oldest", Rule.NEWEST, schema.trimmed_primary_keys, (field,), descending=True,
                     updatable=False, undeletable="write a -D row that is older")


def check(schema, options, where):
    if options.raw.get("oldest.field") not in schema.by_name:
        raise InvalidArgument(f"{where}: merge-engine oldest needs a column as 'oldest.field'")


ENGINE = MergeEngine(describe, check)
"""


def build(folder: Path) -> Path:
    """Write the package into this folder, and return the path for ``sys.path``, also for Spark's processes."""
    path = folder / "oldest_engine.zip"
    with ZipFile(path, "w") as archive:
        archive.writestr("oldest_engine.py", ENGINE)
        archive.writestr(
            "oldest_engine-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: oldest-engine\nVersion: 1.0\n"
        )
        archive.writestr("oldest_engine-1.0.dist-info/entry_points.txt", ENTRY_POINTS)
    return path
