"""The REST catalog: a server manages databases, tables, schemas and commits; files are read and written here."""
