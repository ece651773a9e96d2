"""The campaign that runs pypaimon's test suite and repeats its reads with Morrow.

    python -m tests.campaigns.peers .../paimon-python --python .../pypaimon/bin/python [--tests reader_*_test.py]

| module | holds |
|---|---|
| `hook` | a plugin of pytest that runs in pypaimon's environment and sends each read when it happens |
| `filters` | predicates as they are sent, as expressions of Polars |
| `answering` | one read repeated and compared, one append or upsert to a copy of the table |
| `suite` | the test files, each in a pytest of its own that talks to this process |

Nothing of the suite is copied: the folder is an argument. `hook` imports neither Morrow nor the other modules.
"""
