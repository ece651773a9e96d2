package morrow.spark.jvm.scans;

import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ArrayBuffer;

/**
 * Spark's reader of Parquet, which skips nothing for what FLOAT and DOUBLE columns hold: the statistics of a file leave NaN out, which
 * SQL has above all other numbers, and its dictionaries tell -0.0 from 0.0, which SQL has as equal. Spark tests the rows in any case.
 */
public final class Parquet extends ParquetFileFormat {
    public Function1 buildReaderWithPartitionValues(
        org.apache.spark.sql.SparkSession spark,
        StructType stored,
        StructType constants,
        StructType read,
        Seq filters,
        scala.collection.immutable.Map options,
        Configuration hadoop) {
        ArrayBuffer kept = new ArrayBuffer(4);
        scala.collection.Iterator all = filters.iterator();
        while (all.hasNext()) {
            org.apache.spark.sql.sources.Filter filter = (org.apache.spark.sql.sources.Filter) all.next();
            if (!asksForFloats(filter, stored)) {
                kept.$plus$eq(filter);
            }
        }
        // What this makes goes to executors, which know nothing of this class.
        return new ParquetFileFormat().buildReaderWithPartitionValues(
            spark, stored, constants, read, (Seq) kept.toSeq(), options, hadoop);
    }

    private static boolean asksForFloats(org.apache.spark.sql.sources.Filter filter, StructType stored) {
        String[][] columns = filter.v2references();
        for (int i = 0; i < columns.length; i++) {
            StructField[] fields = stored.fields();
            for (int k = 0; k < fields.length; k++) {
                if (fields[k].name().equalsIgnoreCase(columns[i][0]) && holdsFloats(fields[k].dataType())) {
                    return true;
                }
            }
        }
        return false;
    }

    private static boolean holdsFloats(DataType type) {
        if (type instanceof StructType) {
            StructField[] fields = ((StructType) type).fields();
            for (int i = 0; i < fields.length; i++) {
                if (holdsFloats(fields[i].dataType())) {
                    return true;
                }
            }
            return false;
        }
        if (type instanceof ArrayType) {
            return holdsFloats(((ArrayType) type).elementType());
        }
        if (type instanceof MapType) {
            return holdsFloats(((MapType) type).keyType()) || holdsFloats(((MapType) type).valueType());
        }
        return type instanceof FloatType || type instanceof DoubleType;
    }
}
