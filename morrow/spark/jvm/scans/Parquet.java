package morrow.spark.jvm.scans;

import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.collection.immutable.Seq;

/** Spark's reader of Parquet, which skips nothing for what FLOAT and DOUBLE columns hold. */
public final class Parquet extends ParquetFileFormat {
    public Function1 buildReaderWithPartitionValues(
        org.apache.spark.sql.SparkSession spark,
        StructType stored,
        StructType constants,
        StructType read,
        Seq filters,
        scala.collection.immutable.Map options,
        Configuration hadoop) {
        // What this makes goes to executors, which know nothing of this class.
        return new ParquetFileFormat().buildReaderWithPartitionValues(
            spark, stored, constants, read, Skipping.asked(filters, stored, true), options, hadoop);
    }
}
