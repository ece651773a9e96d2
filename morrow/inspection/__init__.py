"""Pictures of what is inside of a table, as `Table.inspect` shows them: from metadata alone, no row is read.

| module | holds |
|---|---|
| `files` | the live files as one frame, with their dead rows and the places of their keys |
| `timeline` | snapshots, tags and branches |
| `trees` | the merge tree of each bucket |
| `shares` | partitions by size, files by age |
| `work` | what the next compaction would do, what reads and writes cost, how a filter prunes |
| `inspection` | all of it on one page |
"""
