"""Ten tasks of a data engineer, written for each library by its documentation; `bench.ten_tasks` runs them."""
