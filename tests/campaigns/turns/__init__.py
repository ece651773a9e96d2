"""Histories of tables with row ids that Morrow and pypaimon write in turns.

A history is a random table with row tracking or data evolution, and random steps of random players: appends, updates of
columns, upserts, deletes, overwrites, compactions and changes of columns, some of which are prepared before another
player's step and committed after it. After each step, both read the table, and their rows are compared with a model.
"""
