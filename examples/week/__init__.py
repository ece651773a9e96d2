"""A week of a data engineer with Morrow, on made data: ``python -m examples.week``.

Each day is a module with one function, `run`, which takes a warehouse folder and a number of rows, prints what it does
and checks the results. Each day starts from the tables that the days before left.
"""
