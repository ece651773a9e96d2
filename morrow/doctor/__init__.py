"""Examinations of whole tables, as `Table.doctor` makes them.

| module | holds |
|---|---|
| `report` | findings, and how they print |
| `subject` | the table while it is examined: what several checks look at, read once |
| `storage` | what is stored: snapshots, tags, branches, data and index files, hints, orphans |
| `order` | what files hold: levels, deletion vectors, rows |
| `costs` | what makes reads and writes dear: runs, small files, snapshots |
| `examination` | all checks, one after the other |
"""
