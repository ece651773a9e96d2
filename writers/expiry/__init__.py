"""What removes old states of a table: snapshots, changelogs, partitions and consumers that have had their time."""
