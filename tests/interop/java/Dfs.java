import java.io.File;
import java.util.Map;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;

/** A namenode and a datanode of Hadoop's in this JVM; they end with it. */
final class Dfs {
    private static MiniDFSCluster cluster;

    private Dfs() {}

    /** Starts them, once; returns the port of the namenode. */
    static Object start(JsonNode request) throws Exception {
        if (cluster == null) {
            HdfsConfiguration conf = new HdfsConfiguration();
            cluster = new MiniDFSCluster.Builder(conf, new File(request.get("path").asText())).numDataNodes(1).build();
            cluster.waitActive();
        }
        return Map.of("port", cluster.getNameNodePort());
    }
}
