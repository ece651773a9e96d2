"""What runs in Spark's JVM: Java text, compiled there once per session by the compiler that Spark itself ships."""
