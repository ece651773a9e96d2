"""Plans run by Spark: its own Parquet scan with Morrow's masks where that gives the same rows, tasks elsewhere."""
