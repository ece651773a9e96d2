"""Every option of a table, declared once, by theme; `morrow.engine.options.table_options` gathers them."""
