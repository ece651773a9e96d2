"""Randomly damaged files of tables: does every read return the same rows or raise a typed error?

    python -m tests.campaigns.damage --count 20000 --seed 7 [--kinds schema snapshot ...]
    python -m tests.campaigns.damage --replay cases.json

| module | content |
|---|---|
| `kinds` | the kinds of files, with the way to find them and the reads that follow a damage |
| `changes` | the kinds of damage, by name: ``bit 12.3``, ``cut 40``, ... |
| `readings` | the reads of a table, and the comparison of their results |
| `tables` | the intact tables: Java's golden tables, and tables that Morrow writes in `made` |
| `worker` | a process that damages copies, reads them and reports the outcomes |
| `campaign` | hands jobs to workers, notices workers that die or hang, and counts outcomes |

Each data file format counts as three kinds: read as usual, with ``verify="pages"``, and verified before it is read. A
silent difference is a finding only if there is a checksum; other differences are just counted.

To add a kind of file, register it in `kinds.KINDS`.
"""
