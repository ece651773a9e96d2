"""Ten tasks of a data engineer, written for each library as its documentation shows; `bench.ten_tasks` runs them."""
