"""Java code for Spark's JVM, compiled there once per session by the compiler that Spark itself ships."""
