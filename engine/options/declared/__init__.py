"""Every option of a table, declared once, by theme; `morrow.engine.options.registry` gathers them."""
