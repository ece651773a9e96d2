package morrow.spark.jvm;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownFilters;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A scan that notes what the query needs, for the plan that Python makes of it; ReadPlans puts that in its place. */
public final class MorrowScan implements ScanBuilder, Scan, SupportsPushDownRequiredColumns, SupportsPushDownFilters {
    private final MorrowTable table;
    private StructType columns;
    private final CaseInsensitiveStringMap options;
    private Filter[] filters = new Filter[0];

    MorrowScan(MorrowTable table, CaseInsensitiveStringMap options) {
        this.table = table;
        this.options = options;
        this.columns = table.schema;
    }

    public void pruneColumns(StructType wanted) {
        columns = wanted;
    }

    /** Takes all filters for pruning, and leaves all of them to Spark as well. */
    public Filter[] pushFilters(Filter[] given) {
        filters = given;
        return given;
    }

    public Filter[] pushedFilters() {
        return new Filter[0];
    }

    public Scan build() {
        return this;
    }

    public StructType readSchema() {
        return columns;
    }

    /** The stream of the table's changes: that of the data source in Python, whose offsets it has. */
    public MicroBatchStream toMicroBatchStream(String checkpoint) {
        Map question = table.question("stream");
        question.put("options", new HashMap(options.asCaseSensitiveMap()));
        Map answer = (Map) Python.ask(table.catalog, question);
        TableProvider provider = (TableProvider) DataSource.lookupDataSourceV2((String) answer.get("format"), SQLConf.get()).get();
        CaseInsensitiveStringMap given = new CaseInsensitiveStringMap((Map) answer.get("options"));
        Table source = provider.getTable(provider.inferSchema(given), new Transform[0], given.asCaseSensitiveMap());
        return ((SupportsRead) source).newScanBuilder(given).build().toMicroBatchStream(checkpoint);
    }

    public String description() {
        return table.name();
    }

    public String toString() {
        return table.name();
    }

    /** The filters that can be told: the query needs no rows but those for which they are true. */
    List told() {
        List told = new ArrayList();
        for (int i = 0; i < filters.length; i++) {
            List filter = Values.filter(filters[i]);
            if (filter != null) {
                told.add(filter);
            }
        }
        return told;
    }

    /** The plan of the rows. Its columns are those of readSchema, in any order and with ids of their own. */
    LogicalPlan plan() {
        Map question = table.with(options).question("read");
        question.put("columns", Arrays.asList((Object[]) columns.fieldNames()));
        question.put("filters", told());
        return Python.rows(table.catalog, question).queryExecution().optimizedPlan();
    }
}
