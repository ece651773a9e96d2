"""Maintenance by Spark: tasks compact, sort and list; the driver plans, and commits or removes once."""
