"""A warehouse as a catalog of Spark: `registration` installs it, the other modules answer the JVM's questions."""
