"""Plans run by Spark: by its own file scan with Morrow's masks if that gives the same rows, else by tasks."""
