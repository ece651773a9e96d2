"""Data files: Parquet, ORC and Avro as Java Paimon writes them, rolled, with statistics and indexes."""

from morrow.writers.files.placement import Placement, delete_files, file_path
from morrow.writers.files.write import write_files

__all__ = ["Placement", "delete_files", "file_path", "write_files"]
