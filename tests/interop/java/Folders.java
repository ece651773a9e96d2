import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.source.ReadBuilder;

/** Tables of a catalog that are folders of files: format tables and object tables. */
class Folders {
    static Table table(JsonNode request) throws Exception {
        return Serve.catalog(request).getTable(Identifier.fromString(request.get("table").asText()));
    }

    static Object read(JsonNode request) throws Exception {
        Table table = table(request);
        ReadBuilder builder = table.newReadBuilder();
        return Serve.rows(builder.newRead(), table.rowType(), builder.newScan().plan().splits(), false);
    }

    static Object write(JsonNode request) throws Exception {
        Table table = table(request);
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        if (request.hasNonNull("overwrite")) builder.withOverwrite(Serve.texts(request.get("overwrite")));
        try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
            for (InternalRow row : Values.rows(request.get("rows"), table.rowType())) write.write(row);
            commit.commit(write.prepareCommit());
        }
        return null;
    }
}
