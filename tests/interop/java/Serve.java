import org.apache.paimon.CoreOptions;
import org.apache.paimon.Snapshot;
import org.apache.paimon.append.AppendCompactCoordinator;
import org.apache.paimon.append.AppendCompactTask;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.catalog.PropertyChange;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.index.HashBucketAssigner;
import org.apache.paimon.operation.BaseAppendFileStoreWrite;
import org.apache.paimon.options.Options;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaChange;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.RowKeyExtractor;
import org.apache.paimon.table.sink.StreamTableCommit;
import org.apache.paimon.table.sink.StreamTableWrite;
import org.apache.paimon.table.sink.StreamWriteBuilder;
import org.apache.paimon.table.sink.TableCommitImpl;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.table.source.StreamTableScan;
import org.apache.paimon.table.source.TableRead;
import org.apache.paimon.table.source.TableScan;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.Pair;
import org.apache.paimon.view.ViewImpl;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;

/**
 * Java Paimon as a server for tests: one JSON request a line on standard input, one JSON answer a line on standard output.
 *
 * <p>Rows are arrays of canonical values (see tests/support/canonical.py), with the row kind in front where it says so.
 */
public class Serve {
    static final ObjectMapper JSON = new ObjectMapper();
    static final String TEMPORARY = System.getProperty("java.io.tmpdir") + "/paimon-io";

    interface Command {
        Object run(JsonNode request) throws Exception;
    }

    static final Map<String, Command> COMMANDS = new HashMap<>();

    static {
        COMMANDS.put("create", Serve::create);
        COMMANDS.put("tables", request -> catalog(request).listTables(request.get("database").asText()));
        COMMANDS.put("databases", request -> catalog(request).listDatabases());
        COMMANDS.put("create_database", Serve::createDatabase);
        COMMANDS.put("alter_database", Serve::alterDatabase);
        COMMANDS.put("database", request -> catalog(request).getDatabase(request.get("database").asText()).options());
        COMMANDS.put("drop", Serve::drop);
        COMMANDS.put("rename", Serve::rename);
        COMMANDS.put("tag", Serve::tag);
        COMMANDS.put("alter", Serve::alter);
        COMMANDS.put("read", Serve::read);
        COMMANDS.put("stream", Serve::stream);
        COMMANDS.put("write", Serve::write);
        COMMANDS.put("overwrite", Serve::overwrite);
        COMMANDS.put("compact", Serve::compact);
        COMMANDS.put("append_compact", Serve::appendCompact);
        COMMANDS.put("hdfs", Dfs::start);
        COMMANDS.put("rest", Rest::start);
        COMMANDS.put("lose_answer", Rest::loseAnswer);
        COMMANDS.put("read_folder", Folders::read);
        COMMANDS.put("write_folder", Folders::write);
        COMMANDS.put("create_view", Serve::createView);
        COMMANDS.put("view", Serve::viewForSpark);
        COMMANDS.put("views", request -> catalog(request).listViews(request.get("database").asText()));
        COMMANDS.put("metadata", request -> Metadata.of(table(request)));
        Life.ACTS.forEach((name, act) -> COMMANDS.put(name, request -> act.on(table(request), request)));
    }

    public static void main(String[] arguments) throws Exception {
        // Libraries print where they like: answers alone go to the real standard output.
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        System.setOut(System.err);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            Map<String, Object> answer = new LinkedHashMap<>();
            try {
                JsonNode request = JSON.readTree(line);
                answer.put("result", COMMANDS.get(request.get("command").asText()).run(request));
            } catch (Throwable problem) {
                Throwable cause = problem;
                while (cause.getCause() != null) cause = cause.getCause();
                answer.put("error", problem + " <- " + cause);
            }
            answers.println(JSON.writeValueAsString(answer));
        }
    }

    // ---- tables ----

    static FileStoreTable table(JsonNode request) throws Exception {
        if (request.hasNonNull("catalog")) {
            FileStoreTable found =
                    (FileStoreTable) catalog(request).getTable(Identifier.fromString(request.get("table").asText()));
            Map<String, String> dynamic = texts(request.get("options"));
            return dynamic.isEmpty() ? found : found.copy(dynamic);
        }
        Options options = new Options();
        options.set(CoreOptions.PATH, "file:" + request.get("path").asText());
        if (request.hasNonNull("branch")) options.set(CoreOptions.BRANCH, request.get("branch").asText());
        FileStoreTable table = FileStoreTableFactory.create(CatalogContext.create(options));
        Map<String, String> dynamic = texts(request.get("options"));
        return dynamic.isEmpty() ? table : table.copy(dynamic);
    }

    static Object createDatabase(JsonNode request) throws Exception {
        catalog(request).createDatabase(request.get("database").asText(), false, texts(request.get("properties")));
        return null;
    }

    static Object alterDatabase(JsonNode request) throws Exception {
        List<PropertyChange> changes = new ArrayList<>();
        texts(request.get("set")).forEach((key, value) -> changes.add(PropertyChange.setProperty(key, value)));
        request.get("unset").forEach(key -> changes.add(PropertyChange.removeProperty(key.asText())));
        catalog(request).alterDatabase(request.get("database").asText(), changes, false);
        return null;
    }

    static Catalog catalog(JsonNode request) {
        Options options = new Options();
        if (request.hasNonNull("catalog")) {
            texts(request.get("catalog")).forEach(options::set);
            return CatalogFactory.createCatalog(CatalogContext.create(options));
        }
        options.set("warehouse", "file:" + request.get("warehouse").asText());
        return CatalogFactory.createCatalog(CatalogContext.create(options));
    }

    static Object drop(JsonNode request) throws Exception {
        catalog(request).dropTable(Identifier.fromString(request.get("table").asText()), false);
        return null;
    }

    static Object rename(JsonNode request) throws Exception {
        Identifier to = Identifier.fromString(request.get("to").asText());
        catalog(request).renameTable(Identifier.fromString(request.get("table").asText()), to, false);
        return null;
    }

    static Object createView(JsonNode request) throws Exception {
        Identifier name = Identifier.fromString(request.get("view").asText());
        List<DataField> fields = table(request).rowType().getFields();
        Map<String, String> dialects = texts(request.get("dialects"));
        String query = request.get("query").asText();
        catalog(request).createView(name, new ViewImpl(name, fields, query, dialects, "by Java", Map.of()), false);
        return null;
    }

    static Object viewForSpark(JsonNode request) throws Exception {
        return catalog(request).getView(Identifier.fromString(request.get("view").asText())).query("spark");
    }

    static Object tag(JsonNode request) throws Exception {
        table(request).createTag(request.get("tag").asText());
        return null;
    }

    static Object create(JsonNode request) throws Exception {
        Catalog catalog = catalog(request);
        Identifier name = Identifier.fromString(request.get("table").asText());
        catalog.createDatabase(name.getDatabaseName(), true);
        Schema.Builder schema = Schema.newBuilder();
        for (JsonNode column : request.get("columns")) schema.column(column.get(0).asText(), Values.type(column.get(1).asText()));
        schema.primaryKey(list(request.get("primary_keys"))).partitionKeys(list(request.get("partition_keys")));
        schema.options(texts(request.get("options")));
        catalog.createTable(name, schema.build(), false);
        return null;
    }

    static Object alter(JsonNode request) throws Exception {
        List<SchemaChange> changes = new ArrayList<>();
        for (JsonNode change : request.get("changes")) {
            String first = change.get(1).asText();
            switch (change.get(0).asText()) {
                case "add_column": changes.add(SchemaChange.addColumn(first, Values.type(change.get(2).asText()))); break;
                case "drop_column": changes.add(SchemaChange.dropColumn(first)); break;
                case "rename_column": changes.add(SchemaChange.renameColumn(first, change.get(2).asText())); break;
                case "set_type": changes.add(SchemaChange.updateColumnType(first, Values.type(change.get(2).asText()))); break;
                case "set_option": changes.add(SchemaChange.setOption(first, change.get(2).asText())); break;
                default: throw new IllegalArgumentException(change.toString());
            }
        }
        catalog(request).alterTable(Identifier.fromString(request.get("table").asText()), changes, false);
        return null;
    }

    // ---- reads ----

    static Object read(JsonNode request) throws Exception {
        FileStoreTable table = table(request);
        ReadBuilder builder = table.newReadBuilder();
        return rows(builder.newRead(), table.rowType(), builder.newScan().plan().splits(), request.path("kinds").asBoolean());
    }

    /** What a streaming reader gets from a snapshot on: snapshot id to rows with kinds. */
    static Object stream(JsonNode request) throws Exception {
        Map<String, String> options = new HashMap<>();
        options.put("scan.mode", "from-snapshot");
        options.put("scan.snapshot-id", request.get("from").asText());
        FileStoreTable table = table(request).copyWithoutTimeTravel(options);
        long latest = table.snapshotManager().latestSnapshotId();
        StreamTableScan scan = table.newReadBuilder().newStreamScan();
        TableRead read = table.newReadBuilder().newRead();
        Map<String, Object> found = new LinkedHashMap<>();
        while (scan.checkpoint() == null || scan.checkpoint() <= latest) {
            TableScan.Plan plan = scan.plan();
            for (Split split : plan.splits()) {
                String snapshot = String.valueOf(((DataSplit) split).snapshotId());
                List<Object> more = rows(read, table.rowType(), List.of(split), true);
                found.merge(snapshot, more, (a, b) -> {
                    List<Object> both = new ArrayList<>((List<?>) a);
                    both.addAll((List<?>) b);
                    return both;
                });
            }
        }
        return found;
    }

    static List<Object> rows(TableRead read, RowType type, List<Split> splits, boolean kinds) throws Exception {
        List<Object> found = new ArrayList<>();
        for (Split split : splits) {
            read.createReader(split).forEachRemaining(row -> {
                List<Object> values = new ArrayList<>();
                if (kinds) values.add(row.getRowKind().shortString());
                values.addAll(Values.row(row, type));
                found.add(values);
            });
        }
        return found;
    }

    // ---- writes ----

    static Object write(JsonNode request) throws Exception {
        FileStoreTable table = table(request);
        List<InternalRow> rows = Values.rows(request.get("rows"), table.rowType());
        if (table.bucketMode() == BucketMode.HASH_DYNAMIC) return writeDynamic(table, rows);
        if (request.hasNonNull("user")) return writeAs(request, table, rows);
        return batch(table, table.newBatchWriteBuilder(), rows);
    }

    static Object overwrite(JsonNode request) throws Exception {
        FileStoreTable table = table(request);
        BatchWriteBuilder builder = table.newBatchWriteBuilder().withOverwrite(texts(request.get("partition")));
        return batch(table, builder, Values.rows(request.get("rows"), table.rowType()));
    }

    static Object batch(FileStoreTable table, BatchWriteBuilder builder, List<InternalRow> rows) throws Exception {
        try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
            write.withIOManager(IOManager.create(TEMPORARY));
            for (InternalRow row : rows) write.write(row);
            commit.commit(write.prepareCommit());
        }
        return latest(table);
    }

    static Object writeAs(JsonNode request, FileStoreTable table, List<InternalRow> rows) throws Exception {
        long identifier = request.get("identifier").asLong();
        StreamWriteBuilder builder = table.newStreamWriteBuilder().withCommitUser(request.get("user").asText());
        try (StreamTableWrite write = builder.newWrite(); StreamTableCommit commit = builder.newCommit()) {
            write.withIOManager(IOManager.create(TEMPORARY));
            for (InternalRow row : rows) write.write(row);
            commit.commit(identifier, write.prepareCommit(true, identifier));
        }
        return latest(table);
    }

    static Object writeDynamic(FileStoreTable table, List<InternalRow> rows) throws Exception {
        String user = UUID.randomUUID().toString();
        CoreOptions options = table.coreOptions();
        HashBucketAssigner assigner = new HashBucketAssigner(
                table.snapshotManager(), user, table.store().newIndexFileHandler(), 1, 1, 0,
                options.dynamicBucketTargetRowNum(), options.dynamicBucketMaxBuckets());
        RowKeyExtractor extractor = table.createRowKeyExtractor();
        StreamWriteBuilder builder = table.newStreamWriteBuilder().withCommitUser(user);
        try (StreamTableWrite write = builder.newWrite(); StreamTableCommit commit = builder.newCommit()) {
            write.withIOManager(IOManager.create(TEMPORARY));
            for (InternalRow row : rows) {
                extractor.setRecord(row);
                write.write(row, assigner.assign(extractor.partition(), extractor.trimmedPrimaryKey().hashCode()));
            }
            commit.commit(1, write.prepareCommit(true, 1));
        }
        return latest(table);
    }

    static Object compact(JsonNode request) throws Exception {
        FileStoreTable table = table(request).copy(Map.of("write-only", "false"));
        Set<Pair<BinaryRow, Integer>> buckets = new LinkedHashSet<>();
        table.store().newScan().plan().files().forEach(entry -> buckets.add(Pair.of(entry.partition(), entry.bucket())));
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
            write.withIOManager(IOManager.create(TEMPORARY));
            for (Pair<BinaryRow, Integer> bucket : buckets) {
                write.compact(bucket.getLeft(), bucket.getRight(), request.path("full").asBoolean());
            }
            commit.commit(write.prepareCommit());
        }
        return latest(table);
    }

    static Object appendCompact(JsonNode request) throws Exception {
        FileStoreTable table = table(request);
        List<AppendCompactTask> tasks = new AppendCompactCoordinator(table, false).run();
        if (tasks.isEmpty()) return latest(table);
        String user = UUID.randomUUID().toString();
        List<CommitMessage> messages = new ArrayList<>();
        BaseAppendFileStoreWrite write = (BaseAppendFileStoreWrite) table.store().newWrite(user);
        write.withIOManager(IOManager.create(TEMPORARY));
        for (AppendCompactTask task : tasks) messages.add(task.doCompact(table, write));
        try (TableCommitImpl commit = table.newCommit(user)) {
            commit.commit(BatchWriteBuilder.COMMIT_IDENTIFIER, messages);
        }
        write.close();
        return latest(table);
    }

    static Object latest(FileStoreTable table) {
        Snapshot snapshot = table.snapshotManager().latestSnapshot();
        return snapshot == null ? null : snapshot.id();
    }

    // ---- requests ----

    static Map<String, String> texts(JsonNode node) {
        Map<String, String> found = new LinkedHashMap<>();
        if (node != null) node.fields().forEachRemaining(entry -> found.put(entry.getKey(), entry.getValue().asText()));
        return found;
    }

    static List<String> list(JsonNode node) {
        List<String> found = new ArrayList<>();
        if (node != null) ((ArrayNode) node).forEach(item -> found.add(item.asText()));
        return found;
    }
}
