package morrow.spark.jvm;

/** An error of Morrow in a class that PySpark prints as one line. */
public final class Refused {
    private Refused() {}

    /** A feature that Morrow does not support. */
    public static class Unsupported extends UnsupportedOperationException {
        public Unsupported(String message) {
            super(message);
        }
    }

    /** Any other error; kind is the name of Morrow's error class. */
    public static class Failed extends IllegalArgumentException {
        final String kind;

        public Failed(String kind, String message) {
            super(kind + ": " + message);
            this.kind = kind;
        }
    }

    static RuntimeException of(String kind, String message) {
        return kind.equals("Unsupported") ? (RuntimeException) new Unsupported(message) : new Failed(kind, message);
    }

    /** The same error for ALTER TABLE, where Spark would wrap the other class in an error that PySpark prints with its stack trace. */
    static RuntimeException ofAlter(RuntimeException error) {
        return error instanceof Failed ? new Unsupported(error.getMessage()) : error;
    }

    static boolean is(RuntimeException error, String kind) {
        return error instanceof Failed && ((Failed) error).kind.equals(kind);
    }
}
