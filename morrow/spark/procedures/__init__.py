"""Paimon's Spark procedures: their names, arguments and results, on Morrow's tables.

`calling` holds `call` and the registry, `procedure` the class `Procedure`, `tables` the argument `table`; the
procedures are in modules by theme.
"""
