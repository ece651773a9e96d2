"""Writes by Spark: executors write the files of a commit, and the driver commits them once."""
