import org.apache.paimon.Snapshot;
import org.apache.paimon.operation.LocalOrphanFilesClean;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.table.FileStoreTable;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** What Java Paimon sees of a table's life, and what it can do to it. */
class Life {
    interface Act {
        Object on(FileStoreTable table, JsonNode request) throws Exception;
    }

    static final Map<String, Act> ACTS = new HashMap<>();

    static {
        ACTS.put("roots", (table, request) -> roots(table));
        ACTS.put("create_tag", (table, request) -> done(() -> table.createTag(name(request), request.get("snapshot").asLong())));
        ACTS.put("delete_tag", (table, request) -> done(() -> table.deleteTag(name(request))));
        ACTS.put("create_branch", (table, request) -> done(() -> table.createBranch(name(request), request.get("tag").asText())));
        ACTS.put("delete_branch", (table, request) -> done(() -> table.deleteBranch(name(request))));
        ACTS.put("fast_forward", (table, request) -> done(() -> table.fastForward(name(request))));
        ACTS.put("rollback", (table, request) -> done(() -> table.rollbackTo(request.get("snapshot").asLong())));
        ACTS.put("rollback_to_tag", (table, request) -> done(() -> table.rollbackTo(name(request))));
        ACTS.put("expire", Life::expire);
        ACTS.put("clean", Life::clean);
    }

    /** The snapshots, tags (name to snapshot) and branches that Java lists. */
    static Object roots(FileStoreTable table) throws Exception {
        List<Long> snapshots = new ArrayList<>();
        table.snapshotManager().snapshots().forEachRemaining(snapshot -> snapshots.add(snapshot.id()));
        Map<String, Object> tags = new LinkedHashMap<>();
        for (Map.Entry<Snapshot, List<String>> tag : table.tagManager().tags().entrySet()) {
            for (String name : tag.getValue()) tags.put(name, tag.getKey().id());
        }
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("snapshots", snapshots);
        found.put("earliest", table.snapshotManager().earliestSnapshotId());
        found.put("latest", table.snapshotManager().latestSnapshotId());
        found.put("tags", tags);
        found.put("branches", table.branchManager().branches());
        return found;
    }

    /** Expire what there are too many of, whatever its age; the number of snapshots that went. */
    static Object expire(FileStoreTable table, JsonNode request) {
        FileStoreTable expiring = table.copy(Map.of(
                "snapshot.num-retained.max", request.get("retain_max").asText(),
                "snapshot.num-retained.min", request.get("retain_min").asText()));
        return expiring.newExpireSnapshots().config(expiring.coreOptions().expireConfig()).expire();
    }

    /** Remove orphans of any age; the number of files that went. */
    static Object clean(FileStoreTable table, JsonNode request) throws Exception {
        return new LocalOrphanFilesClean(table, Long.MAX_VALUE, false).clean().getDeletedFileCount();
    }

    static String name(JsonNode request) {
        return request.get("name").asText();
    }

    static Object done(Runnable act) {
        act.run();
        return null;
    }
}
