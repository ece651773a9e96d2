"""SQL queries over the tables of a catalog: their dialect, views, functions, hints and parameters."""
