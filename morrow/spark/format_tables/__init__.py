"""Format tables in Spark: folders of files without snapshots, read and written by its tasks."""
