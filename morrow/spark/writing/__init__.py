"""Writes by Spark: executors write the files of a commit, the driver commits them once."""
