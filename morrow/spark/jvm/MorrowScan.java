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
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownFilters;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsReportOrdering;
import org.apache.spark.sql.connector.read.SupportsReportPartitioning;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.partitioning.KeyGroupedPartitioning;
import org.apache.spark.sql.connector.read.partitioning.Partitioning;
import org.apache.spark.sql.connector.read.partitioning.UnknownPartitioning;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A scan that notes what the query needs, for the plan that Python makes; ReadPlans then replaces the scan by this plan. */
public final class MorrowScan implements ScanBuilder,
                Scan,
                SupportsPushDownRequiredColumns,
                SupportsPushDownFilters,
                SupportsPushDownAggregates,
                SupportsPushDownLimit,
                SupportsReportPartitioning,
                SupportsReportOrdering,
                SupportsReportStatistics {
    private final MorrowTable table;
    private StructType columns;
    private final CaseInsensitiveStringMap options;
    private MorrowTable chosen;
    private Filter[] filters = new Filter[0];
    private Filter[] applied = new Filter[0];
    private int limit = -1;
    private List aggregates;
    private Map buckets;
    private org.apache.spark.sql.classic.Dataset aggregated;

    MorrowScan(MorrowTable table, CaseInsensitiveStringMap options) {
        this.table = table;
        this.options = options;
        this.columns = table.schema;
    }

    /** The table's columns; lengths of CHAR columns are in their types. */
    StructType columns() {
        return table.schema;
    }

    /** The state to read: the table's, or the one that the options choose. */
    private MorrowTable read() {
        if (chosen == null) {
            chosen = table.with(options);
        }
        return chosen;
    }

    /** Reads whole columns: if the query needs a part of a nested column, Spark requests only this part. */
    public void pruneColumns(StructType wanted) {
        StructField[] whole = wanted.fields();
        for (int i = 0; i < whole.length; i++) {
            DataType type = table.typeOf(whole[i].name());
            if (type != null) {
                whole[i] = new StructField(whole[i].name(), type, whole[i].nullable(), whole[i].metadata());
            }
        }
        columns = new StructType(whole);
    }

    /** Accepts all filters for pruning, and returns to Spark the filters that may not be exact on whole partitions. */
    public Filter[] pushFilters(Filter[] given) {
        filters = given;
        List told = told();
        if (told.isEmpty() || !table.hasPartitions()) {
            return given;
        }
        Map question = read().question("partition filters");
        question.put("filters", told);
        List exact = (List) Python.ask(table.catalog, question);
        List taken = new ArrayList();
        List left = new ArrayList();
        int next = 0;
        for (int i = 0; i < given.length; i++) {
            boolean isExact = Values.filter(given[i]) != null && Boolean.TRUE.equals(exact.get(next++));
            (isExact ? taken : left).add(given[i]);
        }
        applied = (Filter[]) taken.toArray(new Filter[0]);
        return (Filter[]) left.toArray(new Filter[0]);
    }

    public Filter[] pushedFilters() {
        return applied;
    }

    /** Accepts COUNT, MIN and MAX if metadata can answer them; the answer becomes the rows of this scan. */
    public boolean supportCompletePushDown(Aggregation aggregation) {
        List wanted = Aggregates.told(aggregation);
        if (wanted == null) {
            return false;
        }
        if (!wanted.equals(aggregates)) {
            Map question = read().question("aggregate");
            question.put("filters", told());
            question.put("aggregates", wanted.get(0));
            question.put("groups", wanted.get(1));
            aggregates = wanted;
            aggregated = Python.rowsIfAny(table.catalog, question);
        }
        return aggregated != null;
    }

    public boolean pushAggregation(Aggregation aggregation) {
        return supportCompletePushDown(aggregation);
    }

    /** Notes the limit, which Spark applies too. */
    public boolean pushLimit(int rows) {
        limit = rows;
        return true;
    }

    public boolean isPartiallyPushed() {
        return true;
    }

    public org.apache.spark.sql.connector.read.Statistics estimateStatistics() {
        return new Estimates((Map) Python.ask(table.catalog, rows("statistics")), (double) columns.defaultSize() / table.schema.defaultSize());
    }

    /** The buckets of the rows, if joins by them need no shuffle; empty if they do. */
    private Map buckets() {
        SQLConf conf = SQLConf.get();
        boolean isWanted = conf.v2BucketingEnabled() && !conf.v2BucketingShuffleEnabled(); // Spark cannot compute buckets
        if (buckets == null && isWanted && aggregated == null) {
            buckets = (Map) Python.ask(table.catalog, rows("buckets"));
        }
        buckets = buckets == null ? new HashMap() : buckets;
        return buckets;
    }

    public Partitioning outputPartitioning() {
        Map found = buckets();
        if (found.isEmpty()) {
            return new UnknownPartitioning(0);
        }
        Transform bucket = Expressions.apply(Buckets.Hash.PREFIX + found.get("function"), Buckets.column(found.get("key")));
        return new KeyGroupedPartitioning(new Transform[] {bucket}, ((List) found.get("numbers")).size());
    }

    /** The order of the rows in each bucket: that of the primary key, if the bucket is one file. */
    public org.apache.spark.sql.connector.expressions.SortOrder[] outputOrdering() {
        return Buckets.order(buckets().isEmpty() ? new ArrayList() : (List) buckets.get("order"));
    }

    public Batch toBatch() {
        if (buckets().isEmpty()) {
            throw new UnsupportedOperationException(description());
        }
        return new Buckets(table.catalog, rows("read buckets"), (List) buckets().get("numbers"));
    }

    public Scan build() {
        return this;
    }

    public StructType readSchema() {
        return aggregated == null ? columns : aggregated.schema();
    }

    /** The stream of the table's changes: it uses the Python data source and its offsets. */
    public MicroBatchStream toMicroBatchStream(String checkpoint) {
        Map question = table.question("stream");
        question.put("options", new HashMap(options.asCaseSensitiveMap()));
        Map answer = (Map) Python.ask(table.catalog, question);
        TableProvider provider = (TableProvider) DataSource.lookupDataSourceV2((String) answer.get("format"), SQLConf.get()).get();
        CaseInsensitiveStringMap given = new CaseInsensitiveStringMap((Map) answer.get("options"));
        StructType now = provider.inferSchema(given);
        checkColumns(now);
        Table source = provider.getTable(now, new Transform[0], given.asCaseSensitiveMap());
        return ((SupportsRead) source).newScanBuilder(given).build().toMicroBatchStream(checkpoint);
    }

    /** Refuses a stream whose columns differ from the DataFrame's: Spark would decode their bytes wrongly. */
    private void checkColumns(StructType now) {
        boolean same = Arrays.equals(columns.fieldNames(), now.fieldNames()) && typesOf(columns).equals(typesOf(now));
        if (!same) {
            throw Refused.of("InvalidArgument", table.name() + ": its columns have changed since the stream was made, to "
                + now.catalogString() + "; make the DataFrame anew, the checkpoint goes on");
        }
    }

    /** The types as text, without the lengths of text types, which Spark keeps or drops depending on its settings. */
    private static String typesOf(StructType columns) {
        return columns.catalogString().replaceAll("\\b(var)?char\\(\\d+\\)", "string");
    }

    public String description() {
        return table.name();
    }

    public String toString() {
        return table.name();
    }

    /** The filters that can be translated: the query needs only rows for which they are true. */
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

    /** A question about the rows that the query needs. */
    private Map rows(String verb) {
        Map question = read().question(verb);
        question.put("columns", Arrays.asList((Object[]) columns.fieldNames()));
        question.put("filters", told());
        return question;
    }

    /** The plan of the rows. Its columns are the columns of readSchema, in any order and with their own ids. */
    LogicalPlan plan() {
        if (aggregated != null) {
            return aggregated.queryExecution().optimizedPlan();
        }
        Map question = rows("read");
        if (limit >= 0) {
            question.put("limit", Integer.valueOf(limit));
        }
        return Python.rows(table.catalog, question).queryExecution().optimizedPlan();
    }
}
