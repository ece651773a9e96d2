"""A warehouse as a catalog of Spark: `install` makes it known, `answers` says what the JVM asks, the others do it."""
