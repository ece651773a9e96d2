package morrow.spark.jvm.scans;

import java.io.File;
import java.io.IOException;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.classic.SparkSession;

/** Whether files exist: on the disk, or in a store that the session's Hadoop reaches. */
final class Presence {
    private static final int MOST_ASKED = 1000; // maximum requests to a store for planning a query
    private final SparkSession spark;
    private int asked;

    Presence(SparkSession spark) {
        this.spark = spark;
    }

    /** Whether a file exists; true also if this cannot be determined, since Spark will report the error. */
    boolean has(Path file) {
        if ("file".equals(file.toUri().getScheme())) {
            return new File(file.toUri().getPath()).exists();
        }
        if (asked++ >= MOST_ASKED) {
            return true;
        }
        try {
            return file.getFileSystem(spark.sessionState().newHadoopConf()).exists(file);
        } catch (IOException error) {
            return true;
        }
    }
}
