"""Files of tables, damaged at random: does every reading give the same rows or a typed error?

    python -m tests.campaigns.damage --count 20000 --seed 7 [--kinds schema snapshot ...]
    python -m tests.campaigns.damage --replay cases.json

| module | holds |
|---|---|
| `kinds` | the kinds of files, each with its way to be found and what is read after it was damaged |
| `changes` | the ways to damage a file, by name: ``bit 12.3``, ``cut 40``, ... |
| `readings` | what is asked of a table, and whether two answers are the same |
| `tables` | the sound tables: those that Java wrote, and those that Morrow writes in `made` |
| `worker` | a process that damages copies, reads them and says what came of it |
| `campaign` | hands jobs to workers, notices those that die or hang, and counts |

Data files are three kinds for each format: read as usual, with ``verify="pages"``, and verified before they are read.
A silent difference is a finding where there is a checksum; elsewhere it is counted.

To add a kind of file, register it in `kinds.KINDS`.
"""
