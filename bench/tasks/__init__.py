"""Ten tasks of a data engineer, written for each library in the style of its documentation; `bench.ten_tasks` runs
them."""
