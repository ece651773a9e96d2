package morrow.spark.jvm.scans;

import java.io.File;
import java.io.IOException;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.classic.SparkSession;

/** Whether files are there: on the disk, or in a store that the session's Hadoop reaches. */
final class Presence {
    private static final int MOST_ASKED = 1000; // requests to a store when a query is planned
    private final SparkSession spark;
    private int asked;

    Presence(SparkSession spark) {
        this.spark = spark;
    }

    /** Whether a file is there; true also where that is not found out: Spark will say what is wrong. */
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
