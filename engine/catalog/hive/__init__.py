"""The Hive catalog: names and locations are in the Hive metastore, schemas and rows in the tables' folders."""
