package morrow.spark.jvm.scans;

import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.execution.datasources.orc.OrcFileFormat;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.collection.immutable.Seq;

/** Spark's ORC reader, without skipping by conditions on FLOAT, DOUBLE and DATE columns. */
public final class Orc extends OrcFileFormat {
    public Function1 buildReaderWithPartitionValues(
        org.apache.spark.sql.SparkSession spark,
        StructType stored,
        StructType constants,
        StructType read,
        Seq filters,
        scala.collection.immutable.Map options,
        Configuration hadoop) {
        // The result is sent to executors, which do not have this class.
        return new OrcFileFormat().buildReaderWithPartitionValues(
            spark, stored, constants, read, Skipping.asked(filters, stored, false), options, hadoop);
    }
}
