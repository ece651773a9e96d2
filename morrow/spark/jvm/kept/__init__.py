"""A file index that keeps the files found by Spark: Java code of its own, compiled when masks are joined."""
