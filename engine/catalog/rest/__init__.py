"""The REST catalog: a server knows databases and tables, changes schemas and commits snapshots; files are read here."""
