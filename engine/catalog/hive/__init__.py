"""The catalog of Hive's metastore: names and locations in the metastore, schemas and rows in the tables' folders."""
