"""Paimon's Spark procedures: their names, arguments and results, on Morrow's tables.

`calling` has `call` and the registry; `procedure` says what a procedure is; `tables` finds the table that is meant; the
procedures are in modules by what they deal with.
"""
